#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace argosy {

// The whole file, or nothing when it does not exist. Throws SystemError when it
// exists and cannot be read.
std::optional<std::string> read_file(const std::filesystem::path& path);

// Writes beside `path` and renames, so that a reader finds the old content or
// the new, never a part. Throws SystemError.
void write_file(const std::filesystem::path& path, std::string_view content);

// Opens a new file in a folder for reading and writing. It has no name, so it
// is gone when the process is, however that ends. Returns the descriptor, or -1
// with errno.
int open_nameless(const std::filesystem::path& folder);

// A new folder under the system's temporary folder, removed with its content
// by the destructor.
class TempDir {
 public:
  explicit TempDir(std::string_view prefix = "argosy");
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

} // namespace argosy
