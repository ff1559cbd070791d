// reduce_scatter: each rank adds up the blocks that belong to it.

#include <algorithm>
#include <cstring>

#include "argosy/comm/memory/memory_backend.h"
#include "argosy/comm/memory/slice_sum.h"

namespace argosy::comm::memory {

namespace {

void reduce_scatter_small(
    Team& team,
    OpOffer mine,
    const Blocks& in,
    void* out,
    std::size_t count,
    Reduction reduction,
    Deadline deadline) {
  const std::size_t bytes = count * size_of(reduction.dtype);
  std::byte* at = team.next_small_window();
  for (const Block& block : in) {
    copy(at, block.data, bytes, false);
    at += bytes;
  }
  team.enter(mine, deadline);
  const std::size_t offset = bytes * static_cast<std::size_t>(team.rank());
  add_up(
      inputs_of(
          team, [&](int rank) { return team.small_window(rank) + offset; }),
      out,
      count,
      reduction);
}

// The references of a rank's blocks. An offer has room for one input only, so
// they lie in the rank's small window.
const BufferRef* refs_of(const Team& team, int rank) {
  return reinterpret_cast<const BufferRef*>(team.small_window(rank));
}

// All blocks of a rank are offered with one access, that of the slowest block:
// a reference is valid for one kind of access only.
void tell_refs(Team& team, OpOffer& mine, const Blocks& in) {
  auto* refs = reinterpret_cast<BufferRef*>(team.next_small_window());
  mine.access = Access::Mapped;
  for (const Block& block : in) {
    mine.access = std::min(mine.access, team.access_of(block.data));
  }
  for (const Block& block : in) {
    *refs++ = team.ref_of(block.data, mine.access);
  }
}

void sum_blocks(
    Team& team,
    const Blocks& in,
    void* out,
    std::size_t count,
    Reduction reduction,
    Deadline deadline) {
  const auto self = static_cast<std::size_t>(team.rank());
  SumPlan plan{.own_in = in[self].data, .own_out = out, .count = count};
  for (int rank = 0; rank < team.size(); ++rank) {
    plan.inputs.push_back(refs_of(team, rank)[self]);
  }
  SliceSum(team, reduction).run(plan);
  leave_together(team, deadline);
}

// A round carries `per_rank` elements of every block; a window holds them at
// fixed places, one for each rank. A rank does not stage its own block.
void reduce_scatter_staged(
    Team& team,
    const Blocks& in,
    void* out,
    std::size_t count,
    Reduction reduction,
    Deadline deadline) {
  const std::size_t element = size_of(reduction.dtype);
  const auto n = static_cast<std::size_t>(team.size());
  const std::size_t grain = grain_of(reduction.dtype);
  const std::size_t per_rank = kRoundBytes / element / n / grain * grain;
  const auto now = [&](std::uint32_t round) {
    return std::min(per_rank, count - round * per_rank);
  };
  const auto source = [&](int rank, std::uint32_t round) {
    const void* block = in[static_cast<std::size_t>(rank)].data;
    return at(block, round * per_rank * element);
  };
  const auto offset = [&](int rank) {
    return per_rank * element * static_cast<std::size_t>(rank);
  };
  run_rounds(
      team,
      rounds_for(count, per_rank),
      [&](std::uint32_t round, std::byte* window) {
        for (int peer : others_first_neighbour(team)) {
          std::memcpy(
              window + offset(peer), source(peer, round), now(round) * element);
        }
      },
      [&](std::uint32_t round, int index) {
        const auto input_of = [&](int rank) -> const void* {
          return rank == team.rank()
              ? source(rank, round)
              : team.window(rank, index) + offset(team.rank());
        };
        add_up(
            inputs_of(team, input_of),
            at(out, round * per_rank * element),
            now(round),
            reduction);
      },
      deadline);
}

} // namespace

void MemoryBackend::reduce_scatter(
    const Blocks& in,
    void* out,
    std::size_t count,
    Reduction reduction,
    Deadline deadline) {
  Team& team = shared_.team();
  OpOffer mine{make_record(OpKind::ReduceScatter, count, reduction)};
  const std::size_t all =
      count * size_of(reduction.dtype) * static_cast<std::size_t>(team.size());
  if (is_small(all)) {
    reduce_scatter_small(team, mine, in, out, count, reduction, deadline);
    return;
  }
  tell_refs(team, mine, in);
  team.enter(mine, deadline);
  if (!team.windows_are_better()) {
    sum_blocks(team, in, out, count, reduction, deadline);
    return;
  }
  reduce_scatter_staged(team, in, out, count, reduction, deadline);
}

} // namespace argosy::comm::memory
