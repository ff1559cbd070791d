#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

// What the ranks of a group on one host share: a region per rank, which its
// owner writes and the others read. The same for threads (heap memory) and
// processes (memfd), so one set of algorithms serves both.
namespace argosy::comm::memory {

constexpr std::size_t kLine = 64; // bytes of a cache line

// What a rank is about to do. All ranks of a group must do the same, in the
// same order; each compares its record with everybody's.
struct OpRecord {
  std::uint8_t kind = 0;   // OpKind
  std::uint8_t dtype = 0;  // DType
  std::uint8_t op = 0;     // ReduceOp
  std::uint8_t direct = 0; // 1: `in` and `out` mean something to the peers
  std::int32_t root = -1;
  std::uint64_t count = 0;  // elements, or a hash of several counts
  std::uint64_t in = 0;     // address for peers that share our address space,
  std::uint64_t out = 0;    // or a place in symmetric memory
  std::uint64_t detail = 0; // of the op: hash of the splits
};

// The record of an operation beside the number of that operation, in one line:
// who has seen the number has the record too.
struct alignas(kLine) Entry {
  std::atomic<std::uint32_t> sequence{0};
  std::atomic<std::uint32_t> sleepers{0};
  OpRecord record;
};
static_assert(sizeof(Entry) == kLine);

// A number that only grows (and wraps), with the count of those asleep on it.
struct alignas(kLine) Counter {
  std::atomic<std::uint32_t> value{0};
  std::atomic<std::uint32_t> sleepers{0};
};

struct alignas(kLine) Failure {
  std::atomic<std::uint32_t> set{0};
  std::int32_t rank = -1; // whose failure it is
  char text[448] = {};
};

// Two of whatever an operation writes, used in turn: when a rank enters
// operation k + 2, all others have entered k + 1, so they are done with k.
struct Control {
  Entry entries[2];
  Counter staged;   // rounds whose data is in the window
  Counter reduced;  // rounds whose result is in the window
  Counter consumed; // rounds that this rank has taken from all windows
  Failure failure;  // written once, by whoever finds that the group is lost
  std::uint64_t self = 0; // where its owner sees it; see can_fetch()
};

constexpr std::size_t kWindowBytes = std::size_t{1} << 20; // of one of the two

struct Region {
  Control control;
  // In staged rounds: two windows for data and two for results. Small
  // operations use the first two.
  alignas(kLine) std::byte windows[4][kWindowBytes];
};

// Whether `value` has come to `target`, for numbers that wrap.
constexpr bool reached(std::uint32_t value, std::uint32_t target) {
  return static_cast<std::int32_t>(value - target) >= 0;
}

} // namespace argosy::comm::memory
