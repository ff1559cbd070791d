#pragma once

#include <filesystem>
#include <memory>
#include <string_view>

namespace argosy::launch {
class Fd;
}

namespace argosy::observe {

// A file that grows by whole records: each goes to the system in one call, so
// that what was written survives the process, and several processes may append
// to one file.
class AppendFile {
 public:
  // Makes the file and the folders above it where they are missing. Throws
  // SystemError.
  explicit AppendFile(std::filesystem::path path);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  // Throws SystemError.
  void append(std::string_view record);

  // Whether the file has content that does not end in a line break, as after a
  // crash in the middle of a write.
  bool ends_within_line() const;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::unique_ptr<launch::Fd> fd_;
};

} // namespace argosy::observe
