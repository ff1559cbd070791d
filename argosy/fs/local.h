#pragma once

#include <sys/stat.h>

#include "argosy/fs/file_system.h"
#include "argosy/fs/progress.h"

namespace argosy::fs {

// Files of this machine and what it has mounted. A partial file is locked
// (flock) by the process that writes it, so that sweep() knows whether it still
// lives.
class LocalFileSystem : public FileSystem {
 public:
  std::string url(const std::string& path) const override;
  bool is_local() const override { return true; }
  std::vector<Entry> list(
      const std::string& folder, Deadline deadline) override;
  std::optional<Entry> stat(
      const std::string& path, Deadline deadline) override;
  void make_dirs(const std::string& folder, Deadline deadline) override;
  void remove(const std::string& path, Deadline deadline) override;
  void rename(const std::string& from, const std::string& to, Deadline deadline)
      override;
  bool link(const std::string& from, const std::string& to, Deadline deadline)
      override;
  std::unique_ptr<Reader> open_read(
      const std::string& path, ReadOptions options, Deadline deadline) override;
  std::unique_ptr<Writer> open_write(
      const std::string& path,
      WriteOptions options,
      Deadline deadline) override;
  int sweep(
      const std::string& folder,
      std::chrono::seconds age,
      Deadline deadline) override;
};

// Owns a descriptor.
class LocalFile {
 public:
  explicit LocalFile(int fd = -1) : fd_(fd) {}
  ~LocalFile();
  LocalFile(LocalFile&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  LocalFile& operator=(LocalFile&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }

  int fd() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_;
};

std::unique_ptr<Reader> open_local_reader(
    const std::string& path, ReadOptions options);
std::unique_ptr<Writer> open_local_writer(
    const std::string& path, WriteOptions options);

// Makes what was created, renamed or removed in a folder survive a power cut.
void sync_folder(const std::string& folder, std::string_view op);

// The folder that a path is in; "." if the path does not say.
std::string folder_of(const std::string& path);

// Throws TimeoutError naming operation and path if the deadline has passed.
void check_deadline(
    const Deadline& deadline, std::string_view op, const std::string& path);

} // namespace argosy::fs
