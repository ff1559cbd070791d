#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace argosy::launch {

// Why a worker failed, in its own words: the file that torchrun names in
// TORCHELASTIC_ERROR_FILE. Python's workers write it too.
struct ErrorFile {
  std::string message;     // "Type: text"
  std::string traceback{}; // may be empty
  long long timestamp = 0; // seconds since 1970; 0 when the file has none

  bool operator==(const ErrorFile&) const = default;
};

// Nothing when the file is missing or not of this form.
std::optional<ErrorFile> read_error_file(const std::filesystem::path& path);

// Throws SystemError.
void write_error_file(
    const std::filesystem::path& path, const ErrorFile& error);

} // namespace argosy::launch
