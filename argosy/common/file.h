#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace argosy {

// Returns the contents; nullopt if the file does not exist. Throws SystemError
// if it cannot be read.
std::optional<std::string> read_file(const std::filesystem::path& path);

// Writes atomically, by renaming a temporary file: readers see the old or the
// new content, never a part. Throws SystemError.
void write_file(const std::filesystem::path& path, std::string_view content);

// Opens a new unnamed file in a folder for reading and writing; it disappears
// with the process. Returns the descriptor, or -1 and sets errno.
int open_nameless(const std::filesystem::path& folder);

// A new folder in the system's temporary folder. The destructor removes it with
// its contents.
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
