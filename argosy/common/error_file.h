#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace argosy {

// A worker's report to its launcher about the error that ended it. The file has
// torchrun's format, so that each launcher can read the other's workers.
struct ErrorReport {
  std::string message;
  std::string call_stack;  // may be empty
  long long timestamp = 0; // Unix time in seconds
  // Unix time in nanoseconds; 0: only the seconds are known. Torch does not
  // write it, and ignores it.
  long long timestamp_ns = 0;

  bool operator==(const ErrorReport&) const = default;
};

// Writes atomically. Throws SystemError.
void write_error_file(
    const std::filesystem::path& path, const ErrorReport& report);

// Returns nullopt if the file is missing or malformed: a worker may die while
// writing, and the launcher must continue.
std::optional<ErrorReport> read_error_file(const std::filesystem::path& path);

} // namespace argosy
