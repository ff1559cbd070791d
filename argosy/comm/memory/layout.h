#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "argosy/comm/operation/op_record.h"

// The memory that the ranks of a group on one host share: a region for each
// rank, which its owner writes and the others read. Threads and processes have
// the same layout, so one set of algorithms serves both.
namespace argosy::comm::memory {

constexpr std::size_t kLine = 64; // bytes of a cache line
constexpr std::size_t kPage = 4096;

// A number that only grows (and wraps), and how many threads sleep on it.
struct Signal {
  std::atomic<std::uint32_t> value{0};
  std::atomic<std::uint32_t> sleepers{0};
};

// Whether `value` has reached `target`, for numbers that wrap.
constexpr bool reached(std::uint32_t value, std::uint32_t target) {
  return static_cast<std::int32_t>(value - target) >= 0;
}

// How peers access a rank's buffer, the slowest way first.
enum class Access : std::uint8_t {
  Windowed,   // only through the windows of its owner's region
  KernelCopy, // the kernel copies it: the reference is an address of the owner
  Mapped,     // peers read and write it like memory of their own
};

// What a rank tells its peers about the place of a buffer: an address in its
// own process, or a segment and an offset in symmetric memory.
using BufferRef = std::uint64_t;
// Set in the reference of a mapped buffer that lies in its owner's heap.
constexpr BufferRef kInHeap = BufferRef{1} << 63;

// What a rank publishes on entering an operation: which one, which all members
// compare, and how to access its buffers.
struct OpOffer : OpRecord {
  BufferRef in = 0;
  BufferRef out = 0;
  Access access = Access::Windowed;
  bool in_window = false; // its input lies in its small window
  // Elements of each block that it gives and takes, where these may differ; 0:
  // they do differ, or are too many.
  std::uint32_t each = 0;
};

// The number of an operation and its offer share a cache line: a rank that has
// seen the number has the offer too.
struct alignas(kLine) Entry {
  Signal begun;
  OpOffer offer;
};
static_assert(sizeof(Entry) == kLine);

struct alignas(kLine) Counter : Signal {};

enum class FailureKind : std::uint32_t { Disagreement, Timeout, Loss };

// Why a rank says that the group has failed. The group's failure is that of the
// rank which Control::told_by of rank 0 names, so that all ranks throw the
// same.
struct alignas(kLine) Failure {
  FailureKind kind = FailureKind::Loss;
  char text[1020] = {};
};

// Operations alternate between two entries, and small ones between two windows:
// when a rank enters operation k + 2, all others have entered k + 1, so they
// are done with k.
struct Control {
  Entry entries[2];
  Counter staged;   // rounds whose data is in the window
  Counter reduced;  // rounds whose result is in the window
  Counter consumed; // rounds that this rank has taken from all windows
  Counter arrivals; // messages that were sent to this rank
  Failure failure;  // the owner writes it before told_by names it
  // Only rank 0's is used: 1 + the rank whose failure is the group's; 0: none.
  // Set once, by any rank, in one step: a rank that dies before it has told
  // nothing, and another one can tell.
  std::atomic<std::uint32_t> told_by{0};
  std::atomic<std::int32_t> waits_for{-1}; // the rank that this one waits for
  std::atomic<std::uint32_t> guards{0};    // live Peers::BufferGuard objects
  std::atomic<bool> closed{false};         // the owner has left the group
  std::uint64_t self = 0; // its own address in the owner; see can_fetch()
};

constexpr std::size_t kWindowBytes = std::size_t{1} << 20; // of one window

// Precedes the data of a message.
struct MessageHeader {
  std::uint64_t count = 0;
  DType dtype = DType::UInt8;
  bool by_ref = false; // the receiver copies the data from `ref`
  BufferRef ref = 0;
};

constexpr std::size_t kSlotBytes = std::size_t{32} << 10;
constexpr std::uint32_t kSlots = 8;

struct alignas(kLine) Slot {
  MessageHeader header;
  alignas(kLine) std::byte data[kSlotBytes];
};

// Messages from the owner of the region to one peer: a ring of slots.
struct Pipe {
  Counter posted; // slots that the sender has filled
  Counter taken;  // slots that the receiver has emptied
  Slot slots[kSlots];
};

// Untouched pages cost nothing, so there is a pipe for every rank.
struct Region {
  Control control;
  // In staged rounds: two windows for data and two for results. Small
  // operations use the first two.
  alignas(kLine) std::byte windows[4][kWindowBytes];

  Pipe& pipe(int peer) { return reinterpret_cast<Pipe*>(this + 1)[peer]; }

  static constexpr std::size_t bytes(int num_ranks) {
    return sizeof(Region) + static_cast<std::size_t>(num_ranks) * sizeof(Pipe);
  }
};

} // namespace argosy::comm::memory
