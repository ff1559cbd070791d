#include "argosy/checkpoint/chunk_stream.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "argosy/checkpoint/hash.h"
#include "argosy/checkpoint/huge_buffer.h"
#include "argosy/common/error.h"

namespace argosy::checkpoint {

namespace {

constexpr std::size_t kNumBuffers = 6;
constexpr std::size_t kNumThreads = 2; // keep the disk busy
constexpr std::uint64_t kUnit = fs::kDirectAlignment;

} // namespace

struct ChunkStream::Impl {
  // A range with what aligns it, or the error that there is instead.
  struct Slot {
    HugeBuffer memory{kChunkBytes + 2 * kUnit, "load"};
    std::span<std::byte> bytes{};
    std::exception_ptr error{};
    bool is_read = false; // guarded by mutex
  };
  // Of a thread.
  struct OpenFile {
    std::unique_ptr<fs::Reader> reader;
    std::uint32_t number = 0;
  };

  Impl(std::vector<ChunkRange> its_ranges, Open its_open, Deadline its_deadline)
      : ranges(std::move(its_ranges)),
        open(std::move(its_open)),
        deadline(its_deadline),
        slots(std::min(kNumBuffers, ranges.size())) {
    for (std::size_t i = 0; i < std::min(kNumThreads, slots.size()); ++i) {
      threads.emplace_back([this] { run(); });
    }
  }

  ~Impl() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
    }
    changed.notify_all();
    for (std::thread& thread : threads) {
      thread.join();
    }
  }

  void run() {
    OpenFile file;
    while (const auto index = take_range()) {
      Slot& slot = slots[*index % slots.size()];
      try {
        read(ranges[*index], slot, file);
      } catch (...) {
        slot.error = std::current_exception();
      }
      const std::lock_guard lock(mutex);
      slot.is_read = true;
      changed.notify_all();
    }
  }

  // The next range, once its slot is free; none if nobody wants more.
  std::optional<std::size_t> take_range() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] {
      return stopping || num_taken == ranges.size() ||
          num_taken < num_used + slots.size();
    });
    if (stopping || num_taken == ranges.size()) {
      return std::nullopt;
    }
    slots[num_taken % slots.size()].is_read = false;
    return num_taken++;
  }

  void read(const ChunkRange& range, Slot& slot, OpenFile& file) const {
    ARGOSY_ASSERT(range.bytes <= kChunkBytes);
    if (file.reader == nullptr || file.number != range.file) {
      file = {open(range), range.file};
    }
    const std::uint64_t begin = range.offset / kUnit * kUnit;
    const std::uint64_t end = std::min(
        (range.offset + range.bytes + kUnit - 1) / kUnit * kUnit,
        file.reader->size());
    file.reader->read_at(begin, {slot.memory.data(), end - begin}, deadline);
    slot.bytes = {slot.memory.data() + (range.offset - begin), range.bytes};
  }

  const std::vector<ChunkRange> ranges;
  const Open open;
  const Deadline deadline;
  std::vector<Slot> slots; // range i is in slot i modulo their number

  std::mutex mutex;
  std::condition_variable changed;
  // Guarded by mutex.
  std::size_t num_taken = 0; // by threads
  std::size_t num_given = 0; // to the caller
  std::size_t num_used = 0;  // of these, that the caller is done with
  bool stopping = false;

  std::vector<std::thread> threads; // last: they use the others
};

ChunkStream::ChunkStream(
    std::vector<ChunkRange> ranges, Open open, Deadline deadline)
    : impl_(std::make_unique<Impl>(
          std::move(ranges), std::move(open), deadline)) {}

ChunkStream::~ChunkStream() = default;

std::span<std::byte> ChunkStream::next() {
  std::unique_lock lock(impl_->mutex);
  ARGOSY_ASSERT(impl_->num_given < impl_->ranges.size());
  impl_->num_used = impl_->num_given;
  impl_->changed.notify_all();
  Impl::Slot& slot = impl_->slots[impl_->num_given % impl_->slots.size()];
  impl_->changed.wait(lock, [&] {
    return impl_->num_taken > impl_->num_given && slot.is_read;
  });
  if (slot.error != nullptr) {
    std::rethrow_exception(slot.error);
  }
  ++impl_->num_given;
  return slot.bytes;
}

} // namespace argosy::checkpoint
