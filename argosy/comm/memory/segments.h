#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "argosy/comm/memory/layout.h"
#include "argosy/common/deadline.h"
#include "argosy/heap/shared_memory.h"

namespace argosy::comm::memory {

class Team;
using heap::SharedMemory;

// Symmetric memory: segments of which each rank of a group owns a part, and
// which all map. Used by one thread at a time, but parts may be let go of by
// any.
class Segments {
 public:
  // All ranks must call it, with the same number of bytes. The part of this
  // rank, which lives for as long as the pointer, also past the group. Throws
  // SystemError, on all ranks, when one has not enough memory.
  std::shared_ptr<std::byte> allocate(
      Team& team, std::size_t bytes, Deadline deadline);

  // Where a buffer of this rank lies for the others; nothing when it lies in no
  // segment.
  std::optional<BufferRef> find(const void* data) const;

  // The same ref in the part of `rank`, as this rank sees it.
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
