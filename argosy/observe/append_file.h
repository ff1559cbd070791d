#pragma once

#include <filesystem>
#include <memory>
#include <string_view>

namespace argosy::launch {
class Fd;
}

namespace argosy::observe {

// A file to which whole records are appended, each with one system call: what
// was written survives a crash of the process, and several processes may append
// to the same file.
class AppendFile {
 public:
  // Creates the file and missing parent folders. Throws SystemError.
  explicit AppendFile(std::filesystem::path path);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  // Throws SystemError.
  void append(std::string_view record);

  // Whether the file's last line is incomplete, as after a crash during a
  // write.
  bool ends_within_line() const;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::unique_ptr<launch::Fd> fd_;
};

} // namespace argosy::observe
