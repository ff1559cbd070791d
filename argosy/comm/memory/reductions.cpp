// The collectives that add: all_reduce, reduce, reduce_scatter.

#include <array>
#include <cstring>

#include "argosy/comm/kernels/reduce.h"
#include "argosy/comm/memory/collectives.h"
#include "argosy/comm/memory/record.h"
#include "argosy/comm/memory/rounds.h"
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

const std::byte* at(const void* base, std::size_t bytes) {
  return static_cast<const std::byte*>(base) + bytes;
}

std::byte* at(void* base, std::size_t bytes) {
  return static_cast<std::byte*>(base) + bytes;
}

const std::byte* peer_in(const Team& team, int peer) {
  return seen(team, peer, team.record_of(peer).in);
}

std::byte* peer_out(const Team& team, int peer) {
  return seen(team, peer, team.record_of(peer).out);
}

// Elements that fill whole cache lines.
std::size_t grain_of(DType dtype) {
  return kLine / size_of(dtype);
}

// Elements of one piece that is added up while it lies in the first-level
// cache, for loops over memory that all can see.
std::size_t piece_of(DType dtype) {
  return (std::size_t{16} << 10) / size_of(dtype);
}

// out = sum over ranks of in_of(rank)[0, count), all in small windows.
template <typename InputOf>
Inputs inputs_of(const Team& team, const InputOf& input_of) {
  Inputs inputs(static_cast<std::size_t>(team.size()));
  for (int rank = 0; rank < team.size(); ++rank) {
    inputs[rank] = input_of(rank);
  }
  return inputs;
}

void all_reduce_small(
    Team& team,
    const OpRecord& mine,
    const void* in,
    void* out,
    std::size_t count,
    Reduction reduction,
    Deadline deadline) {
  std::memcpy(team.next_small_window(), in, count * size_of(reduction.dtype));
  team.enter(mine, deadline);
  add_up(
      inputs_of(team, [&](int rank) { return team.small_window(rank); }),
      out,
      count,
      reduction);
}

// Each rank adds up its slice and writes the sum into everybody's buffer: every
// buffer is read once and written once, which is the least there is.
void all_reduce_direct(
    Team& team, std::size_t count, Reduction reduction, Deadline deadline) {
  const std::size_t element = size_of(reduction.dtype);
  const Slice mine =
      slice_of(count, team.size(), team.rank(), grain_of(reduction.dtype));
  const std::size_t piece = piece_of(reduction.dtype);
  for (std::size_t done = 0; done < mine.count; done += piece) {
    const std::size_t now = std::min(piece, mine.count - done);
    const std::size_t offset = (mine.begin + done) * element;
    std::byte* sum = at(peer_out(team, team.rank()), offset);
    add_up(
        inputs_of(
            team, [&](int rank) { return at(peer_in(team, rank), offset); }),
        sum,
        now,
        reduction);
    for (int step = 1; step < team.size(); ++step) {
      const int peer = (team.rank() + step) % team.size();
      std::memcpy(at(peer_out(team, peer), offset), sum, now * element);
    }
  }
  leave_together(team, deadline);
}

// Rounds of kRoundBytes of the buffer. In each, every rank puts the slices that
// others add up into its window (0 or 1), adds up its own slice into its result
// window (2 or 3), and takes the other slices from the others' result windows.
// The data of round k + 1 is put out before the wait for round k.
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

// Each rank fetches its slice of the others piece by piece and adds it up while
// the pieces lie in its cache; then all fetch each other's sums. Half of the
// copies of the staged way, for a call into the kernel per piece.
class FetchedAllReduce {
 public:
  FetchedAllReduce(
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
        element_(size_of(reduction.dtype)) {}

  void run(Deadline deadline) {
    add_own_slice();
    leave_together(team_, deadline); // all sums are there
    for (int peer : others_first_neighbour(team_)) {
      const Slice theirs = slice(peer);
      const std::size_t offset = theirs.begin * element_;
      team_.fetch(
          peer,
          at(out_, offset),
          team_.record_of(peer).out + offset,
          theirs.count * element_);
    }
    leave_together(team_, deadline); // nobody reads ours any more
  }

 private:
  Slice slice(int rank) const {
    return slice_of(count_, team_.size(), rank, grain_of(reduction_.dtype));
  }

  // Pieces of all others lie side by side in our own four windows.
  std::size_t piece() const {
    const std::size_t most = std::size_t{256} << 10;
    const auto others = static_cast<std::size_t>(team_.size() - 1);
    return std::min(most, 4 * kWindowBytes / others / kLine * kLine) / element_;
  }

  void add_own_slice() {
    const Slice mine = slice(team_.rank());
    for (std::size_t done = 0; done < mine.count; done += piece()) {
      const std::size_t now = std::min(piece(), mine.count - done);
      const std::size_t offset = (mine.begin + done) * element_;
      std::byte* scratch = team_.window(team_.rank(), 0);
      const auto input_of = [&](int rank) -> const void* {
        if (rank == team_.rank()) {
          return at(in_, offset);
        }
        std::byte* place = scratch;
        scratch += piece() * element_;
        team_.fetch(
            rank, place, team_.record_of(rank).in + offset, now * element_);
        return place;
      };
      add_up(inputs_of(team_, input_of), at(out_, offset), now, reduction_);
    }
  }

  Team& team_;
  const void* in_;
  void* out_;
  const std::size_t count_;
  const Reduction reduction_;
  const std::size_t element_;
};

// Where fetching beats the windows: below, its calls cost more; above, what is
// fetched the second time is no more in anybody's cache.
constexpr bool worth_fetching(std::size_t bytes) {
  return bytes >= (std::size_t{4} << 20) && bytes < (std::size_t{32} << 20);
}

} // namespace

void all_reduce(
    Team& team,
    const void* in,
    void* out,
    std::size_t count,
    Reduction reduction,
    Deadline deadline) {
  OpRecord mine =
      record(OpKind::AllReduce, count, reduction.dtype, -1, reduction.op);
  const std::size_t bytes = count * size_of(reduction.dtype);
  if (is_small(bytes)) {
    all_reduce_small(team, mine, in, out, count, reduction, deadline);
    return;
  }
  offer(team, mine, in, out);
  team.enter(mine, deadline);
  const Reach reach = team.least_reach();
  if (reach == Reach::Seen) {
    all_reduce_direct(team, count, reduction, deadline);
    return;
  }
  if (reach == Reach::Fetched && worth_fetching(bytes)) {
    FetchedAllReduce(team, in, out, count, reduction).run(deadline);
    return;
  }
  StagedAllReduce(team, in, out, count, reduction).run(deadline);
}

void reduce(
    Team& team,
    const void* in,
    void* out,
    std::size_t count,
    Reduction reduction,
    int root,
    Deadline deadline) {
  const std::size_t element = size_of(reduction.dtype);
  OpRecord mine =
      record(OpKind::Reduce, count, reduction.dtype, root, reduction.op);
  const bool is_root = team.rank() == root;
  offer(team, mine, in, is_root ? out : in);
  team.enter(mine, deadline);
  if (team.least_reach() == Reach::Seen) {
    const Slice slice =
        slice_of(count, team.size(), team.rank(), grain_of(reduction.dtype));
    const std::size_t offset = slice.begin * element;
    add_up(
        inputs_of(
            team, [&](int rank) { return at(peer_in(team, rank), offset); }),
        at(peer_out(team, root), offset),
        slice.count,
        reduction);
    leave_together(team, deadline);
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

namespace {

// Where the blocks of a rank lie, told in its small window.
const Place* places_of(const Team& team, int rank) {
  return reinterpret_cast<const Place*>(team.small_window(rank));
}

void reduce_scatter_small(
    Team& team,
    OpRecord mine,
    const Blocks& in,
    void* out,
    std::size_t count,
    Reduction reduction,
    Deadline deadline) {
  const std::size_t bytes = count * size_of(reduction.dtype);
  std::byte* place = team.next_small_window();
  for (const Block& block : in) {
    copy(place, block.data, bytes, false);
    place += bytes;
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

void reduce_scatter_direct(
    Team& team,
    void* out,
    std::size_t count,
    Reduction reduction,
    Deadline deadline) {
  add_up(
      inputs_of(
          team,
          [&](int rank) {
            return seen(team, rank, places_of(team, rank)[team.rank()]);
          }),
      out,
      count,
      reduction);
  leave_together(team, deadline);
}

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
  const auto place = [&](int rank) {
    return per_rank * element * static_cast<std::size_t>(rank);
  };
  run_rounds(
      team,
      rounds_for(count, per_rank),
      [&](std::uint32_t round, std::byte* window) {
        for (int peer : others_first_neighbour(team)) {
          std::memcpy(
              window + place(peer), source(peer, round), now(round) * element);
        }
      },
      [&](std::uint32_t round, int index) {
        const auto input_of = [&](int rank) -> const void* {
          return rank == team.rank()
              ? source(rank, round)
              : team.window(rank, index) + place(team.rank());
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

void reduce_scatter(
    Team& team,
    const Blocks& in,
    void* out,
    std::size_t count,
    Reduction reduction,
    Deadline deadline) {
  OpRecord mine =
      record(OpKind::ReduceScatter, count, reduction.dtype, -1, reduction.op);
  const std::size_t all =
      count * size_of(reduction.dtype) * static_cast<std::size_t>(team.size());
  if (is_small(all)) {
    reduce_scatter_small(team, mine, in, out, count, reduction, deadline);
    return;
  }
  mine.reach = Reach::Seen;
  auto* places = reinterpret_cast<Place*>(team.next_small_window());
  for (const Block& block : in) {
    const Offer offered = offer(team, block.data);
    *places++ = offered.place;
    mine.reach = std::min(mine.reach, offered.reach);
  }
  team.enter(mine, deadline);
  if (team.least_reach() == Reach::Seen) {
    reduce_scatter_direct(team, out, count, reduction, deadline);
    return;
  }
  reduce_scatter_staged(team, in, out, count, reduction, deadline);
}

} // namespace argosy::comm::memory
