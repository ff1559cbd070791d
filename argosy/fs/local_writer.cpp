#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>

#include "argosy/fs/local.h"
#include "argosy/fs/partial.h"

namespace argosy::fs {

namespace {

// Between looks at the deadline, and the step in which the kernel is told to
// begin writing, so that little is left to wait for in commit().
constexpr std::size_t kWriteChunk = 16u << 20;

constexpr int kCreateTries = 16;

// A new locked file. The lock ends with this process, however that ends.
LocalFile create_locked(std::string& partial, const std::string& path) {
  for (int i = 0; i < kCreateTries; ++i) {
    partial = partial_path(path);
    LocalFile file(
        ::open(partial.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (!file) {
      if (errno == EEXIST) {
        continue;
      }
      throw_errno(errno, "open_write", path);
    }
    struct ::stat status {};
    // A sweep may have come between open() and flock().
    const bool is_locked = ::flock(file.fd(), LOCK_EX | LOCK_NB) == 0 ||
        errno == ENOLCK || errno == EOPNOTSUPP;
    if (is_locked && ::fstat(file.fd(), &status) == 0 && status.st_nlink > 0) {
      return file;
    }
  }
  throw FsError(
      Failure::Other,
      str("[fs.open_write] ",
          path,
          ": cannot create a partial file beside it"));
}

// The size up to which this process may write, so that going past it is an
// error here and not a signal that ends the process.
std::uint64_t file_size_limit() {
  struct ::rlimit limit {};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 ||
      limit.rlim_cur == RLIM_INFINITY) {
    return std::numeric_limits<std::uint64_t>::max();
  }
  return limit.rlim_cur;
}

bool is_direct(std::uint64_t offset, std::span<const std::byte> bytes) {
  return offset % kDirectAlignment == 0 && bytes.size() >= kDirectAlignment &&
      reinterpret_cast<std::uintptr_t>(bytes.data()) % kDirectAlignment == 0;
}

class LocalWriter : public Writer {
 public:
  LocalWriter(const std::string& path, WriteOptions options)
      : path_(path),
        options_(std::move(options)),
        size_limit_(file_size_limit()),
        meter_(path, options_.expected_bytes, options_.on_progress) {
    struct ::stat status {};
    if (::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) {
      throw_errno(EISDIR, "open_write", path);
    }
    file_ = create_locked(partial_, path);
    try {
      if (options_.direct) {
        // -1 where the file system has no O_DIRECT.
        direct_ =
            LocalFile(::open(partial_.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC));
      }
      reserve();
    } catch (...) {
      ::unlink(partial_.c_str()); // the destructor does not run
      throw;
    }
  }

  ~LocalWriter() override {
    if (!partial_.empty()) {
      ::unlink(partial_.c_str());
    }
  }

  bool can_write_at() const override { return true; }
  int descriptor() const override {
    return direct_ ? direct_.fd() : file_.fd();
  }

  void write(std::span<const std::byte> bytes, Deadline deadline) override {
    write_at(position_, bytes, deadline);
    position_ += bytes.size();
  }

  void write_at(
      std::uint64_t offset,
      std::span<const std::byte> bytes,
      Deadline deadline) override {
    ARGOSY_CHECK(!partial_.empty(), "[fs.write] {}: committed already", path_);
    while (!bytes.empty()) {
      check_deadline(deadline, "write", path_);
      const std::size_t count =
          write_some(offset, bytes.first(std::min(bytes.size(), kWriteChunk)));
      bytes = bytes.subspan(count);
      offset += count;
      meter_.add(count);
    }
  }

  void commit(Deadline deadline) override {
    ARGOSY_CHECK(!partial_.empty(), "[fs.commit] {}: committed already", path_);
    check_deadline(deadline, "commit", path_);
    if (options_.sync && ::fsync(file_.fd()) != 0) {
      throw_errno(errno, "commit", path_);
    }
    if (::rename(partial_.c_str(), path_.c_str()) != 0) {
      throw_errno(errno, "commit", path_);
    }
    partial_.clear();
    if (options_.sync) {
      sync_folder(folder_of(path_), "commit");
    }
    meter_.finish();
  }

 private:
  // Refuses a file that cannot fit. Direct writes go faster into space that is
  // reserved; with the page cache, reserving costs more than it gives.
  void reserve() {
    const std::uint64_t bytes = options_.expected_bytes.value_or(0);
    if (bytes == 0) {
      return;
    }
    if (bytes > size_limit_) {
      throw_errno(EFBIG, "open_write", path_);
    }
    struct ::statvfs status {};
    if (::fstatvfs(file_.fd(), &status) == 0 && status.f_blocks > 0 &&
        bytes / status.f_frsize > status.f_bavail) {
      throw_errno(ENOSPC, "open_write", path_);
    }
    if (direct_ &&
        ::fallocate(
            file_.fd(), FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(bytes)) !=
            0 &&
        errno == ENOSPC) {
      throw_errno(ENOSPC, "open_write", path_);
    }
  }

  std::size_t write_some(
      std::uint64_t offset, std::span<const std::byte> bytes) {
    if (bytes.size() > size_limit_ || offset > size_limit_ - bytes.size()) {
      throw_errno(EFBIG, "write", path_);
    }
    const bool direct = direct_ && is_direct(offset, bytes);
    if (direct) {
      bytes = bytes.first(bytes.size() / kDirectAlignment * kDirectAlignment);
    }
    const ssize_t count = ::pwrite(
        direct ? direct_.fd() : file_.fd(),
        bytes.data(),
        bytes.size(),
        static_cast<off_t>(offset));
    if (count < 0) {
      if (errno == EINTR) {
        return 0;
      }
      throw_errno(errno, "write", path_);
    }
    if (!direct && options_.sync && bytes.size() == kWriteChunk) {
      ::sync_file_range(
          file_.fd(), static_cast<off_t>(offset), count, SYNC_FILE_RANGE_WRITE);
    }
    return static_cast<std::size_t>(count);
  }

  const std::string path_;
  const WriteOptions options_;
  const std::uint64_t size_limit_;
  ProgressMeter meter_;
  std::string partial_; // empty once committed
  LocalFile file_;
  LocalFile direct_;
  std::uint64_t position_ = 0; // of write()
};

} // namespace

std::unique_ptr<Writer> open_local_writer(
    const std::string& path, WriteOptions options) {
  return std::make_unique<LocalWriter>(path, std::move(options));
}

} // namespace argosy::fs
