#include <ATen/ops/empty.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "argosy/common/error.h"
#include "argosy/observe/crc32c.h"
#include "argosy/offload/backing.h"
#include "argosy/offload/block_io.h"
#include "argosy/offload/scratch_file.h"

namespace argosy::offload {

namespace {

// Aligned memory for transfers, kept for reuse: new pages cost as much as
// reading the data.
class Pool {
 public:
  at::Tensor take(std::int64_t bytes) {
    const auto fits = std::ranges::find_if(
        free_, [&](auto& each) { return each.numel() >= bytes; });
    if (fits != free_.end()) {
      at::Tensor found = std::move(*fits);
      free_.erase(fits);
      return found;
    }
    if (!free_.empty()) { // drop one that is too small, or it stays forever
      total_ -= free_.back().numel();
      free_.pop_back();
    }
    total_ += bytes;
    peak_ = std::max(peak_, total_);
    return allocate(bytes);
  }

  void give(at::Tensor memory) { free_.push_back(std::move(memory)); }

  std::int64_t total() const { return total_; }
  std::int64_t peak() const { return peak_; }

 private:
  static at::Tensor allocate(std::int64_t bytes) {
    constexpr std::int64_t kTo = ScratchFile::kAlignment;
    const at::Tensor memory =
        at::empty({bytes + kTo}, at::TensorOptions(at::kByte));
    const auto at = reinterpret_cast<std::intptr_t>(memory.data_ptr());
    return memory.narrow(0, (kTo - at % kTo) % kTo, bytes);
  }

  std::vector<at::Tensor> free_;
  std::int64_t total_ = 0; // bytes, free and in use
  std::int64_t peak_ = 0;
};

// Null means threads; only an explicit Uring is an error without io_uring.
std::unique_ptr<BlockIo> make_io(OffloadIo wanted, const ScratchFile& file) {
  auto io = wanted == OffloadIo::Threads ? nullptr : make_uring_io(file);
  ARGOSY_CHECK(
      io != nullptr || wanted != OffloadIo::Uring,
      "[offload] this kernel does not allow io_uring; OffloadIo::Auto falls "
      "back to threads");
  return io;
}

// A slot is in one of four states: only in the file, being read, in memory,
// being written (leaving). At most one slot leaves at a time: its write
// overlaps with the next slot's use, and its memory is reused right after.
class Streamed final : public Backing {
 public:
  explicit Streamed(const OffloadOptions& options)
      : checksum_(options.checksum),
        file_(options.offload_path, options.direct, options.offload_disk_size),
        io_(make_io(options.io, file_)) {
    stats_.io = io_ ? OffloadIo::Uring : OffloadIo::Threads;
    stats_.direct = file_.is_direct();
    if (!io_) {
      io_ = make_thread_io(file_);
    }
  }

  std::size_t add(std::int64_t bytes) override {
    slots_.push_back({.bytes = bytes});
    return slots_.size() - 1;
  }

  void prefetch(std::size_t index) override {
    Slot& slot = slots_[index];
    if (slot.memory.defined()) {
      // If it is being written, finish_leaving() must not free it.
      slot.is_wanted = true;
      return;
    }
    slot.memory = pool_.take(aligned(slot.bytes));
    if (slot.offset < 0) {
      // Never written: zeros need no read, but the file does not have them.
      slot.memory.zero_();
      slot.is_changed = true;
      return;
    }
    slot.transfer = start(slot, false);
    stats_.read += slot.bytes;
  }

  at::Tensor get(std::size_t index, const Deadline& deadline) override {
    prefetch(index);
    Slot& slot = slots_[index];
    if (index == leaving_) {
      finish_leaving(deadline);
    }
    if (slot.transfer) {
      finish_reading(slot, deadline);
    }
    slot.is_wanted = false;
    return slot.memory.narrow(0, 0, slot.bytes);
  }

  void touch(std::size_t index) override { slots_[index].is_changed = true; }

  void release(std::size_t index, const Deadline& deadline) override {
    finish_leaving(deadline);
    Slot& slot = slots_[index];
    if (!slot.is_changed) {
      give_back(slot);
      return;
    }
    if (slot.offset < 0) {
      slot.offset = file_.reserve(slot.bytes);
    }
    slot.checksum = checksum_ ? checksum_of(slot) : 0;
    slot.transfer = start(slot, true);
    stats_.written += slot.bytes;
    leaving_ = index;
  }

  OffloadStats stats() const override {
    OffloadStats stats = stats_;
    stats.memory = pool_.total();
    stats.peak = pool_.peak();
    stats.file = file_.size();
    return stats;
  }

 private:
  struct Slot {
    std::int64_t bytes = 0;
    std::int64_t offset = -1; // in the file; -1 before the first write
    at::Tensor memory;        // undefined while only the file has it
    std::optional<BlockIo::Ticket> transfer; // under way
    bool is_changed = false;                 // differs from the file
    bool is_wanted = false; // prefetched while it leaves: keep its memory
    std::uint32_t checksum = 0;
  };

  static constexpr std::size_t kNone = ~std::size_t{0};

  BlockIo::Ticket start(const Slot& slot, bool writes) {
    return io_->start(
        {writes,
         slot.offset,
         static_cast<std::byte*>(slot.memory.data_ptr()),
         aligned(slot.bytes)});
  }

  void give_back(Slot& slot) {
    pool_.give(std::move(slot.memory));
    slot.memory = at::Tensor();
  }

  void finish_reading(Slot& slot, const Deadline& deadline) {
    io_->wait(*slot.transfer, deadline);
    const auto ticket = *std::exchange(slot.transfer, std::nullopt);
    try {
      io_->close(ticket);
      check_content(slot);
    } catch (const SystemError&) {
      give_back(slot);
      throw;
    }
  }

  void check_content(const Slot& slot) const {
    if (checksum_ && checksum_of(slot) != slot.checksum) {
      throw SystemError(str_format(
          "[offload.read] {} bytes differ from those that were written: "
          "checksums differ",
          slot.bytes));
    }
  }

  // Waits for the previous write. If it fails, its buffer stays in memory,
  // still marked as changed.
  void finish_leaving(const Deadline& deadline) {
    if (leaving_ == kNone) {
      return;
    }
    Slot& slot = slots_[leaving_];
    io_->wait(*slot.transfer, deadline);
    leaving_ = kNone;
    io_->close(*std::exchange(slot.transfer, std::nullopt));
    slot.is_changed = false;
    if (!slot.is_wanted) {
      give_back(slot);
    }
  }

  static std::uint32_t checksum_of(const Slot& slot) {
    return observe::crc32c(
        {static_cast<const char*>(slot.memory.data_ptr()),
         static_cast<std::size_t>(slot.bytes)});
  }

  const bool checksum_;
  ScratchFile file_;
  std::vector<Slot> slots_;
  Pool pool_;
  OffloadStats stats_;
  std::size_t leaving_ = kNone;
  std::unique_ptr<BlockIo> io_; // last: waits for transfers of the slots
};

} // namespace

std::unique_ptr<Backing> make_streamed(const OffloadOptions& options) {
  return std::make_unique<Streamed>(options);
}

} // namespace argosy::offload
