// all_reduce and reduce: every rank adds up a slice.

#include <algorithm>
#include <cstring>
#include <utility>

#include "argosy/comm/memory/memory_backend.h"
#include "argosy/comm/memory/slice_sum.h"

namespace argosy::comm::memory {

namespace {

// Direct reductions: ranks read and write each other's buffers in place.

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

// For buffers that peers cannot access, or only slowly. The buffer passes in
// rounds of kRoundBytes. In each round, every rank copies the slices that
// others add up into its data window (0 or 1), adds up its own slice into its
// result window (2 or 3), and copies the other slices from the result windows
// of the others. A rank copies the buffer about once into windows and once out
// of them, and adds up 1 / n of it for n ranks.
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
  if (!team.windows_are_better()) {
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
  // The root adds up everything alone: without access to its buffer, slices of
  // other ranks would have to pass through one more window. So any access is
  // better.
  if (team.common_access() != Access::Windowed) {
    sum_slice(team, in, out, count, reduction, root, deadline);
    return;
  }
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

} // namespace argosy::comm::memory
