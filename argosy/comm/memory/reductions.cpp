// The collectives that add: all_reduce, reduce, reduce_scatter.

#include <cstring>
#include <utility>
#include <vector>

#include "argosy/comm/backend/slices.h"
#include "argosy/comm/kernels/reduce.h"
#include "argosy/comm/memory/memory_backend.h"
#include "argosy/comm/memory/steps.h"
#include "argosy/comm/memory/team.h"

namespace argosy::comm::memory {

namespace {

// The inputs of all ranks for one piece, in rank order.
using Inputs = std::vector<const void*>;

void add_up(
    const Inputs& inputs, void* out, std::size_t count, Reduction reduction) {
  comm::reduce(
      out,
      inputs.data(),
      static_cast<int>(inputs.size()),
      count,
      reduction.dtype,
      reduction.op);
}

// Elements that fill whole cache lines.
std::size_t grain_of(DType dtype) {
  return kLine / size_of(dtype);
}

template <typename InputOf>
Inputs inputs_of(const Team& team, const InputOf& input_of) {
  Inputs inputs(static_cast<std::size_t>(team.size()));
  for (int rank = 0; rank < team.size(); ++rank) {
    inputs[rank] = input_of(rank);
  }
  return inputs;
}

// Direct reductions: ranks read and write each other's buffers in place.

// One slice of the buffers: what this rank adds up, and where the sum belongs.
struct SumPlan {
  const void* own_in = nullptr;
  std::vector<BufferRef> inputs; // of all ranks
  void* own_out = nullptr;       // null: the sum belongs to others only
  std::vector<std::pair<int, BufferRef>> outputs; // of others
  std::size_t count = 0;
};

// Adds up a slice piece by piece. With n ranks and a buffer of B bytes, a rank
// reads B / n bytes from every rank and writes B / n bytes to every taker.
// There is no second pass as in a ring: the piece is still in this core's cache
// when it is added and stored, so each buffer is read once and written once.
//
// Each sum is complete before it is stored, so a taker's output may be its own
// input: nobody else reads the elements of this slice.
class SliceSum {
 public:
  SliceSum(Team& team, Reduction reduction)
      : team_(team),
        reduction_(reduction),
        element_(size_of(reduction.dtype)),
        piece_(piece_bytes() / element_) {}

  void run(const SumPlan& plan) {
    // A failed rank waits for the guards of all others before it gives up its
    // buffer. Short guards bound that wait; one for each piece would cost more.
    const std::size_t stretch = piece_ * kGuardedPieces;
    for (std::size_t done = 0; done < plan.count; done += stretch) {
      const auto guard = team_.guard_buffers();
      run(plan, done, std::min(done + stretch, plan.count));
    }
  }

 private:
  void run(const SumPlan& plan, std::size_t begin, std::size_t end) {
    for (std::size_t done = begin; done < end; done += piece_) {
      const std::size_t now = std::min(piece_, end - done);
      const std::size_t offset = done * element_;
      // Our own scratch piece is free: our input is read in place.
      void* sum = plan.own_out == nullptr ? scratch(team_.rank())
                                          : at(plan.own_out, offset);
      const auto input_of = [&](int rank) -> const void* {
        return rank == team_.rank()
            ? at(plan.own_in, offset)
            : bring(rank, plan.inputs[rank] + offset, now * element_);
      };
      add_up(inputs_of(team_, input_of), sum, now, reduction_);
      for (const auto& [rank, ref] : plan.outputs) {
        team_.store(rank, ref + offset, sum, now * element_);
      }
    }
  }

  // Mapped pieces are sized for the first-level cache. Fetched pieces are sized
  // for the second, because each fetch is a system call; those of all ranks
  // must fit into the two windows that scratch() uses.
  std::size_t piece_bytes() const {
    if (team_.common_access() == Access::Mapped) {
      return kMappedPiece;
    }
    const auto n = static_cast<std::size_t>(team_.size());
    return std::min(kFetchPiece, 2 * kWindowBytes / n / kLine * kLine);
  }

  // In windows 2 and 3, which lie side by side. Peers may still read windows 0
  // and 1: reduce_scatter publishes its references there. Mapped inputs are not
  // brought here, so the sum is alone: pieces for all ranks might not fit.
  std::byte* scratch(int rank) const {
    const bool alone = team_.common_access() == Access::Mapped;
    const auto place = alone ? 0 : static_cast<std::size_t>(rank);
    return team_.window(team_.rank(), 2) + place * piece_ * element_;
  }

  const void* bring(int rank, BufferRef ref, std::size_t bytes) {
    if (team_.offer_of(rank).access == Access::Mapped) {
      return team_.local_address(rank, ref);
    }
    team_.fetch(rank, scratch(rank), ref, bytes);
    return scratch(rank);
  }

  Team& team_;
  const Reduction reduction_;
  const std::size_t element_;
  const std::size_t piece_; // elements
};

// all_reduce and reduce: every rank adds up one slice of the buffer. The offers
// of all ranks say where their buffers begin. The sum belongs to `root`; -1: to
// all.
void sum_slice(
    Team& team,
    const void* in,
    void* out,
    std::size_t count,
    Reduction reduction,
    int root,
    Deadline deadline) {
  const Slice slice =
      slice_of(count, team.size(), team.rank(), grain_of(reduction.dtype));
  const std::size_t offset = slice.begin * size_of(reduction.dtype);
  SumPlan plan{.own_in = at(in, offset), .count = slice.count};
  for (int rank = 0; rank < team.size(); ++rank) {
    plan.inputs.push_back(team.offer_of(rank).in + offset);
    if (root >= 0 && rank != root) {
      continue;
    }
    if (rank == team.rank()) {
      plan.own_out = at(out, offset);
    } else {
      plan.outputs.emplace_back(rank, team.offer_of(rank).out + offset);
    }
  }
  // Peers read our input and write our output until they are done, so no rank
  // may return to its caller before.
  SliceSum(team, reduction).run(plan);
  leave_together(team, deadline);
}

// Small and staged reductions: the data goes through windows.

// Every rank copies its input to its small window before it enters, so one
// synchronization suffices: enter() returns when all windows are filled. No
// wait follows, because the next operation uses the other small window. The sum
// belongs to `root`; -1: to all.
void sum_small(
    Team& team,
    const OpOffer& mine,
    const void* in,
    void* out,
    std::size_t count,
    Reduction reduction,
    Deadline deadline) {
  copy(team.next_small_window(), in, count * size_of(reduction.dtype), false);
  team.enter(mine, deadline);
  if (mine.root >= 0 && mine.root != team.rank()) {
    return;
  }
  add_up(
      inputs_of(team, [&](int rank) { return team.small_window(rank); }),
      out,
      count,
      reduction);
}

// For buffers that peers cannot access. The buffer passes in rounds of
// kRoundBytes. In each round, every rank copies the slices that others add up
// into its data window (0 or 1), adds up its own slice into its result window
// (2 or 3), and copies the other slices from the result windows of the others.
// A rank copies the buffer about once into windows and once out of them, and
// adds up 1 / n of it for n ranks.
//
// Two counters suffice to reuse the windows. Round k + 1 overwrites the data of
// k - 1: all ranks have published reduced(k - 1), so they have read it. Round k
// overwrites the result of k - 2: a rank stages k after it has taken k - 2.
class StagedAllReduce {
 public:
  StagedAllReduce(
      Team& team,
      const void* in,
      void* out,
      std::size_t count,
      Reduction reduction)
      : team_(team),
        in_(in),
        out_(out),
        count_(count),
        reduction_(reduction),
        element_(size_of(reduction.dtype)),
        per_round_(kRoundBytes / element_) {}

  void run(Deadline deadline) {
    const std::uint32_t rounds = rounds_for(count_, per_round_);
    stage(0);
    for (std::uint32_t round = 0; round < rounds; ++round) {
      if (round + 1 < rounds) {
        stage(round + 1);
      }
      // The next round is staged already: peers need not wait for us there.
      team_.await_staged(round, deadline);
      add_own_slice(round);
      team_.publish_reduced(round);
      team_.await_reduced(round, deadline);
      take_other_slices(round);
    }
    team_.end_rounds(rounds);
  }

 private:
  // Slice of a rank in a round, relative to the round's begin.
  Slice slice(std::uint32_t round, int rank) const {
    const std::size_t count = std::min(per_round_, count_ - round * per_round_);
    return slice_of(count, team_.size(), rank, grain_of(reduction_.dtype));
  }

  std::size_t begin_bytes(std::uint32_t round) const {
    return round * per_round_ * element_;
  }

  void stage(std::uint32_t round) {
    std::byte* window = team_.window(team_.rank(), static_cast<int>(round % 2));
    for (int step = 1; step < team_.size(); ++step) {
      const Slice part = slice(round, (team_.rank() + step) % team_.size());
      const std::size_t offset = part.begin * element_;
      std::memcpy(
          window + offset,
          at(in_, begin_bytes(round) + offset),
          part.count * element_);
    }
    team_.publish_staged(round);
  }

  void add_own_slice(std::uint32_t round) {
    const Slice part = slice(round, team_.rank());
    const std::size_t offset = part.begin * element_;
    // Into the window first, as peers cannot read `out`.
    std::byte* sum = team_.window(team_.rank(), round_window(round)) + offset;
    const auto input_of = [&](int rank) -> const void* {
      return rank == team_.rank()
          ? at(in_, begin_bytes(round) + offset)
          : team_.window(rank, static_cast<int>(round % 2)) + offset;
    };
    add_up(inputs_of(team_, input_of), sum, part.count, reduction_);
    std::memcpy(
        at(out_, begin_bytes(round) + offset), sum, part.count * element_);
  }

  void take_other_slices(std::uint32_t round) {
    for (int step = 1; step < team_.size(); ++step) {
      const int peer = (team_.rank() + step) % team_.size();
      const Slice part = slice(round, peer);
      const std::size_t offset = part.begin * element_;
      std::memcpy(
          at(out_, begin_bytes(round) + offset),
          team_.window(peer, round_window(round)) + offset,
          part.count * element_);
    }
  }

  Team& team_;
  const void* in_;
  void* out_;
  const std::size_t count_;
  const Reduction reduction_;
  const std::size_t element_;
  const std::size_t per_round_; // elements
};

} // namespace

void MemoryBackend::all_reduce(
    const void* in,
    void* out,
    std::size_t count,
    Reduction reduction,
    Deadline deadline) {
  Team& team = shared_.team();
  OpOffer mine{make_record(OpKind::AllReduce, count, reduction)};
  const std::size_t bytes = count * size_of(reduction.dtype);
  if (is_small(bytes)) {
    sum_small(team, mine, in, out, count, reduction, deadline);
    return;
  }
  offer(team, mine, in, out);
  team.enter(mine, deadline);
  if (team.common_access() != Access::Windowed) {
    sum_slice(team, in, out, count, reduction, -1, deadline);
    return;
  }
  StagedAllReduce(team, in, out, count, reduction).run(deadline);
}

void MemoryBackend::reduce(
    const void* in,
    void* out,
    std::size_t count,
    Reduction reduction,
    int root,
    Deadline deadline) {
  Team& team = shared_.team();
  const std::size_t element = size_of(reduction.dtype);
  const bool is_root = team.rank() == root;
  OpOffer mine{make_record(OpKind::Reduce, count, reduction, root)};
  if (is_small(count * element)) {
    sum_small(team, mine, in, out, count, reduction, deadline);
    return;
  }
  // Only the root has an output; the others offer their input twice.
  offer(team, mine, in, is_root ? out : in);
  team.enter(mine, deadline);
  if (team.common_access() != Access::Windowed) {
    sum_slice(team, in, out, count, reduction, root, deadline);
    return;
  }
  // The root adds up everything alone: without access to its buffer, slices of
  // other ranks would have to pass through one more window.
  const std::size_t per_round = kRoundBytes / element;
  run_rounds(
      team,
      rounds_for(count, per_round),
      [&](std::uint32_t round, std::byte* window) {
        const std::size_t begin = round * per_round;
        std::memcpy(
            window,
            at(in, begin * element),
            std::min(per_round, count - begin) * element);
      },
      [&](std::uint32_t round, int index) {
        const std::size_t begin = round * per_round;
        if (is_root) {
          add_up(
              inputs_of(
                  team, [&](int rank) { return team.window(rank, index); }),
              at(out, begin * element),
              std::min(per_round, count - begin),
              reduction);
        }
      },
      deadline);
}

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
  if (team.common_access() != Access::Windowed) {
    sum_blocks(team, in, out, count, reduction, deadline);
    return;
  }
  reduce_scatter_staged(team, in, out, count, reduction, deadline);
}

} // namespace argosy::comm::memory
