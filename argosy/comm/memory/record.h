#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "argosy/comm/kernels/dtype.h"
#include "argosy/comm/kernels/reduce_op.h"
#include "argosy/comm/memory/layout.h"
#include "argosy/comm/memory/team.h"
#include "argosy/comm/op_kind.h"

// What the collectives share: records, buffers of peers, the order of visits.
namespace argosy::comm::memory {

inline OpRecord record(
    OpKind kind,
    std::size_t count,
    DType dtype,
    int root = -1,
    ReduceOp op = ReduceOp::SUM) {
  OpRecord result;
  result.kind = static_cast<std::uint8_t>(kind);
  result.dtype = static_cast<std::uint8_t>(dtype);
  result.op = static_cast<std::uint8_t>(op);
  result.root = root;
  result.count = count;
  return result;
}

// Below this, data goes through the small windows: one synchronisation is worth
// more than the copies it costs.
constexpr std::size_t kSmallBytes = 32 << 10;
constexpr bool is_small(std::size_t bytes) {
  return bytes <= kSmallBytes;
}

// Of what is used at once, and stays in a cache until then.
constexpr std::size_t kFetchPiece = std::size_t{256} << 10;
constexpr std::size_t kMappedPiece = std::size_t{16} << 10;
constexpr std::size_t kGuardedPieces = 16; // in one Peers::BufferGuard

// For operations that have one buffer to read and one to write.
inline void offer(
    const Team& team, OpRecord& mine, const void* in, const void* out) {
  mine.access = std::min(team.access_of(in), team.access_of(out));
  mine.in = team.ref_of(in, mine.access);
  mine.out = team.ref_of(out, mine.access);
}

// All ranks but ours, from the next one on, so that not all begin with the
// same.
inline std::vector<int> others_first_neighbour(const Team& team) {
  std::vector<int> order;
  for (int step = 1; step < team.size(); ++step) {
    order.push_back((team.rank() + step) % team.size());
  }
  return order;
}

// After direct use of each other's buffers: returns when all are done.
inline void leave_together(Team& team, Deadline deadline) {
  team.publish_consumed(0);
  team.await_consumed(0, deadline);
  team.end_rounds(1);
}

} // namespace argosy::comm::memory
