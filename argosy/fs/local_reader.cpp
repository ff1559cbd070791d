#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "argosy/fs/local.h"

namespace argosy::fs {

namespace {

// Between looks at the deadline.
constexpr std::size_t kReadChunk = 64u << 20;

bool is_aligned(std::uint64_t offset, const std::byte* memory) {
  return offset % kDirectAlignment == 0 &&
      reinterpret_cast<std::uintptr_t>(memory) % kDirectAlignment == 0;
}

class LocalMapping : public Mapping {
 public:
  LocalMapping(const LocalFile& file, std::size_t size, const std::string& path)
      : size_(size) {
    if (size == 0) { // an empty file cannot be mapped
      return;
    }
    memory_ = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.fd(), 0);
    if (memory_ == MAP_FAILED) {
      throw_errno(errno, "map", path);
    }
  }
  ~LocalMapping() override {
    if (size_ > 0) {
      ::munmap(memory_, size_);
    }
  }
  LocalMapping(const LocalMapping&) = delete;
  LocalMapping& operator=(const LocalMapping&) = delete;

  std::span<const std::byte> bytes() const override {
    return {static_cast<const std::byte*>(memory_), size_};
  }

 private:
  void* memory_ = nullptr;
  const std::size_t size_;
};

class LocalReader : public Reader {
 public:
  LocalReader(std::string path, ReadOptions options)
      : path_(std::move(path)),
        file_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC)) {
    struct ::stat status {};
    if (!file_ || ::fstat(file_.fd(), &status) != 0) {
      throw_errno(errno, "open_read", path_);
    }
    if (S_ISDIR(status.st_mode)) {
      throw_errno(EISDIR, "open_read", path_);
    }
    size_ = static_cast<std::uint64_t>(status.st_size);
    if (options.direct) {
      // -1 where the file system has no O_DIRECT.
      direct_ =
          LocalFile(::open(path_.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
      ::posix_fadvise(file_.fd(), 0, 0, POSIX_FADV_RANDOM); // only what is left
    }
    meter_.emplace(path_, size_, std::move(options.on_progress));
  }

  std::uint64_t size() const override { return size_; }
  int descriptor() const override { return file_.fd(); }

  void read_at(
      std::uint64_t offset,
      std::span<std::byte> into,
      Deadline deadline) override {
    ARGOSY_CHECK(
        into.size() <= size_ && offset <= size_ - into.size(),
        "[fs.read] {}: bytes {} to {} of a file that has {}",
        path_,
        offset,
        offset + into.size(),
        size_);
    while (!into.empty()) {
      check_deadline(deadline, "read", path_);
      const ssize_t got = read_some(offset, into);
      if (got < 0 && errno != EINTR) {
        throw_errno(errno, "read", path_);
      }
      if (got == 0) {
        throw FsError(
            Failure::Broken,
            str("[fs.read] ",
                path_,
                ": ends at byte ",
                offset,
                ", had ",
                size_,
                " bytes when it was opened: something truncated it"));
      }
      const auto count = static_cast<std::size_t>(std::max<ssize_t>(got, 0));
      into = into.subspan(count);
      offset += count;
      meter_->add(count);
    }
  }

  std::shared_ptr<const Mapping> map() override {
    return std::make_shared<LocalMapping>(file_, size_, path_);
  }

  double cached_share() override {
    constexpr std::uint64_t kSamples = 64;
    const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    const std::uint64_t pages = (size_ + page - 1) / page;
    const std::uint64_t samples = std::min(pages, kSamples);
    if (samples == 0) {
      return 1;
    }
    const LocalMapping mapping(file_, size_, path_);
    // Asking changes nothing.
    auto* const begin = const_cast<std::byte*>(mapping.bytes().data());
    std::uint64_t cached = 0;
    for (std::uint64_t i = 0; i < samples; ++i) {
      unsigned char is_there = 1;
      ::mincore(begin + i * pages / samples * page, page, &is_there);
      cached += is_there & 1;
    }
    return static_cast<double>(cached) / static_cast<double>(samples);
  }

 private:
  ssize_t read_some(std::uint64_t offset, std::span<std::byte> into) const {
    std::size_t count = std::min(into.size(), kReadChunk);
    const bool direct =
        direct_ && count >= kDirectAlignment && is_aligned(offset, into.data());
    if (direct) {
      count = count / kDirectAlignment * kDirectAlignment;
    }
    return ::pread(
        direct ? direct_.fd() : file_.fd(),
        into.data(),
        count,
        static_cast<off_t>(offset));
  }

  const std::string path_;
  const LocalFile file_;
  LocalFile direct_;
  std::uint64_t size_ = 0;
  std::optional<ProgressMeter> meter_;
};

} // namespace

std::unique_ptr<Reader> open_local_reader(
    const std::string& path, ReadOptions options) {
  return std::make_unique<LocalReader>(path, std::move(options));
}

} // namespace argosy::fs
