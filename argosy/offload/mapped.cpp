#include <ATen/ops/from_blob.h>
#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "argosy/common/error.h"
#include "argosy/offload/backing.h"
#include "argosy/offload/scratch_file.h"

namespace argosy::offload {

namespace {

class Mapping {
 public:
  Mapping(const ScratchFile& file, std::int64_t offset, std::int64_t bytes)
      : size_(static_cast<std::size_t>(aligned(bytes))),
        memory_(::mmap(
            nullptr,
            size_,
            PROT_READ | PROT_WRITE,
            MAP_SHARED,
            file.fd(),
            offset)) {
    if (memory_ == MAP_FAILED) {
      throw SystemError(file.failure("map", bytes, errno));
    }
  }
  ~Mapping() { ::munmap(memory_, size_); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  void* memory() const { return memory_; }
  void advise(int advice) const { ::madvise(memory_, size_, advice); }

 private:
  const std::size_t size_;
  void* const memory_;
};

// Maps the file; the kernel's page cache reads ahead and writes back.
class Mapped final : public Backing {
 public:
  explicit Mapped(const OffloadOptions& options)
      : file_(options.offload_path, false, options.offload_disk_size) {
    stats_.io = OffloadIo::Mapped;
  }

  std::size_t add(std::int64_t bytes) override {
    const std::int64_t offset = file_.reserve(bytes);
    slots_.push_back(
        {bytes, offset, std::make_unique<Mapping>(file_, offset, bytes)});
    return slots_.size() - 1;
  }

  void prefetch(std::size_t index) override {
    Slot& slot = slots_[index];
    if (!slot.is_here) {
      // Starts to read; the first access waits for pages that are missing.
      slot.mapping->advise(MADV_WILLNEED);
      slot.is_here = true;
      stats_.read += slot.bytes;
      stats_.memory += slot.bytes;
      stats_.peak = std::max(stats_.peak, stats_.memory);
    }
  }

  at::Tensor get(std::size_t index, const Deadline&) override {
    prefetch(index);
    const Slot& slot = slots_[index];
    return at::from_blob(
        slot.mapping->memory(), {slot.bytes}, at::TensorOptions(at::kByte));
  }

  void touch(std::size_t index) override { slots_[index].is_changed = true; }

  // Removes the pages from this process; the kernel writes them when it
  // chooses.
  void release(std::size_t index, const Deadline&) override {
    Slot& slot = slots_[index];
    // Starts to write without waiting, so that dirty pages do not pile up until
    // the kernel throttles the process.
    ::sync_file_range(
        file_.fd(), slot.offset, aligned(slot.bytes), SYNC_FILE_RANGE_WRITE);
    slot.mapping->advise(MADV_DONTNEED);
    stats_.memory -= slot.bytes;
    stats_.written += std::exchange(slot.is_changed, false) ? slot.bytes : 0;
    slot.is_here = false;
  }

  OffloadStats stats() const override {
    OffloadStats stats = stats_;
    stats.file = file_.size();
    return stats;
  }

 private:
  struct Slot {
    std::int64_t bytes;
    std::int64_t offset;
    std::unique_ptr<Mapping> mapping;
    bool is_here = false;
    bool is_changed = false;
  };

  ScratchFile file_;
  std::vector<Slot> slots_;
  OffloadStats stats_;
};

} // namespace

std::unique_ptr<Backing> make_mapped(const OffloadOptions& options) {
  return std::make_unique<Mapped>(options);
}

} // namespace argosy::offload
