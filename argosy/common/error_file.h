#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace argosy {

// What a worker tells its launcher about the error that ended it. The file has
// torchrun's format, so that either launcher can read either worker.
struct ErrorReport {
  std::string message;
  std::string call_stack;  // may be empty
  long long timestamp = 0; // seconds since 1970

  bool operator==(const ErrorReport&) const = default;
};

// Replaces the file as a whole. Throws SystemError.
void write_error_file(
    const std::filesystem::path& path, const ErrorReport& report);

// Nothing when there is no file, or it is not such a report: a worker may have
// died while it wrote, and the launcher must go on.
std::optional<ErrorReport> read_error_file(const std::filesystem::path& path);

} // namespace argosy
