#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "argosy/comm/memory/layout.h"
#include "argosy/common/deadline.h"
#include "argosy/heap/shared_memory.h"

namespace argosy::comm {
class Backend;
}

namespace argosy::comm::memory {

class Team;
using heap::SharedMemory;

// Symmetric memory: segments that all ranks of a group map, and of which each
// owns a part. Used by one thread at a time, except that any thread may release
// a part.
class Segments {
 public:
  // Returns this rank's part of a new segment. All ranks must call it, with the
  // same number of bytes; `backend` is theirs. The part lives as long as the
  // pointer, also past the group. Throws SystemError, on all ranks, when one
  // has not enough memory.
  std::shared_ptr<std::byte> allocate(
      Team& team, Backend& backend, std::size_t bytes, Deadline deadline);

  // The reference of a buffer of this rank; nothing when it lies in no segment.
  std::optional<BufferRef> find(const void* data) const;

  // The address in this process of a buffer that `rank` refers to.
  std::byte* local_address(int rank, BufferRef ref) const;

 private:
  struct Segment {
    std::vector<SharedMemory> parts; // of all ranks; empty: was let go of
    std::size_t bytes = 0;
    const std::byte* own = nullptr;
  };

  void forget_released();

  // By number, which is the same on all ranks.
  std::deque<Segment> segments_;
};

} // namespace argosy::comm::memory
