#include "argosy/checkpoint/import/byte_source.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/fs/local.h"

namespace argosy::checkpoint {

namespace {

// A server that does not answer for so long is gone.
constexpr std::chrono::minutes kReadLimit{5};

class FsSource : public ByteSource {
 public:
  FsSource(std::unique_ptr<fs::Reader> reader, std::string url)
      : reader_(std::move(reader)), url_(std::move(url)) {}

  std::uint64_t size() const override { return reader_->size(); }
  std::string name() const override { return url_; }

 private:
  void do_read(std::uint64_t offset, std::span<std::byte> to) const override {
    reader_->read_at(offset, to, Deadline::after(kReadLimit));
  }

  const std::unique_ptr<fs::Reader> reader_;
  const std::string url_;
};

class DescriptorSource : public ByteSource {
 public:
  DescriptorSource(int fd, std::string name)
      : file_(fd), name_(std::move(name)) {
    const off_t end = ::lseek(fd, 0, SEEK_END);
    if (end < 0) {
      throw CheckpointError(with_errno(str("[checkpoint.read] ", name_)));
    }
    size_ = static_cast<std::uint64_t>(end);
  }

  std::uint64_t size() const override { return size_; }
  std::string name() const override { return name_; }

 private:
  void do_read(std::uint64_t offset, std::span<std::byte> to) const override {
    while (!to.empty()) {
      const ssize_t got =
          ::pread(file_.fd(), to.data(), to.size(), static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) {
        continue;
      }
      if (got <= 0) {
        throw CheckpointError(with_errno(str("[checkpoint.read] ", name_)));
      }
      offset += static_cast<std::uint64_t>(got);
      to = to.subspan(static_cast<std::size_t>(got));
    }
  }

  const fs::LocalFile file_;
  const std::string name_;
  std::uint64_t size_ = 0;
};

class MemorySource : public ByteSource {
 public:
  MemorySource(std::string bytes, std::string name)
      : bytes_(std::move(bytes)), name_(std::move(name)) {}

  std::uint64_t size() const override { return bytes_.size(); }
  std::string name() const override { return name_; }

 private:
  void do_read(std::uint64_t offset, std::span<std::byte> to) const override {
    std::memcpy(to.data(), bytes_.data() + offset, to.size());
  }

  const std::string bytes_;
  const std::string name_;
};

class SliceSource : public ByteSource {
 public:
  SliceSource(Source whole, std::uint64_t offset, std::uint64_t bytes)
      : whole_(std::move(whole)), offset_(offset), bytes_(bytes) {}

  std::uint64_t size() const override { return bytes_; }
  std::string name() const override { return whole_->name(); }
  std::uint64_t base() const override { return whole_->base() + offset_; }

 private:
  void do_read(std::uint64_t offset, std::span<std::byte> to) const override {
    whole_->read(offset_ + offset, to);
  }

  const Source whole_;
  const std::uint64_t offset_;
  const std::uint64_t bytes_;
};

} // namespace

void ByteSource::read(std::uint64_t offset, std::span<std::byte> to) const {
  if (offset > size() || to.size() > size() - offset) {
    throw CheckpointError(
        str("[checkpoint.read] ",
            name(),
            " ends at byte ",
            base() + size(),
            ", expected ",
            to.size(),
            " bytes from ",
            base() + offset,
            " on; the file is truncated or damaged"));
  }
  if (!to.empty()) {
    do_read(offset, to);
  }
}

std::string ByteSource::read_all(std::uint64_t limit) const {
  if (size() > limit) {
    throw CheckpointError(
        str("[checkpoint.read] ",
            name(),
            ", byte ",
            base(),
            ": ",
            size(),
            " bytes, expected at most ",
            limit));
  }
  std::string bytes(size(), '\0');
  read(0, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

Source open_source(const std::string& url) {
  return open_source(fs::open(url));
}

Source open_source(const fs::Location& file) {
  const std::string url = file.fs->url(file.path);
  try {
    return std::make_shared<FsSource>(
        file.fs->open_read(file.path, {}, Deadline::after(kReadLimit)), url);
  } catch (const fs::FsError& error) {
    throw CheckpointError(error.what());
  }
}

Source source_of_descriptor(int fd, const std::string& name) {
  return std::make_shared<DescriptorSource>(fd, name);
}

Source source_of_bytes(std::string bytes, const std::string& name) {
  return std::make_shared<MemorySource>(std::move(bytes), name);
}

Source slice(const Source& whole, std::uint64_t offset, std::uint64_t bytes) {
  if (offset > whole->size() || bytes > whole->size() - offset) {
    throw CheckpointError(
        str("[checkpoint.read] ",
            whole->name(),
            " ends at byte ",
            whole->base() + whole->size(),
            ", expected ",
            bytes,
            " bytes from ",
            whole->base() + offset,
            " on; the file is truncated or damaged"));
  }
  return std::make_shared<SliceSource>(whole, offset, bytes);
}

} // namespace argosy::checkpoint
