#include "argosy/comm/message/reductions.h"

#include <algorithm>

#include "argosy/comm/kernels/reduce.h"

namespace argosy::comm::message {

namespace {

constexpr std::size_t kChunkBytes = std::size_t{512} << 10;
// Chunks that are under way while one is added up.
constexpr std::size_t kAhead = 3;

// One chunk of every slice, on its way to the ranks that add it up.
struct Round {
  std::vector<const void*> inputs; // of our slice, by rank
  std::vector<std::size_t> arrivals;
  std::vector<std::size_t> departures;
};

// Rank r reduces slice r: it receives that slice from every other rank, adds
// the inputs up in rank order, and sends the sum to its takers. For n ranks and
// B bytes, all_reduce sends 2 B (n - 1) / n bytes per rank, as a ring does, but
// in 2 steps instead of 2 (n - 1), and always in rank order.
// Slices pass in chunks: round i carries chunk i of every slice, and kAhead
// rounds are under way while one is reduced.
class ReduceExecutor {
 public:
  ReduceExecutor(TransferSet& transfers, const ReducePlan& plan)
      : transfers_(transfers),
        plan_(plan),
        own_(static_cast<std::size_t>(transfers.rank())),
        others_(transfers.others()),
        element_(size_of(plan_.reduction.dtype)),
        sum_(plan_.sum) {
    std::size_t longest = 0;
    for (const ByteRange& range : plan_.give) {
      longest = std::max(longest, range.bytes);
    }
    num_rounds_ = (longest + kChunkBytes - 1) / kChunkBytes;
    const std::size_t slots = std::min(kAhead + 1, num_rounds_);
    room_ = std::min(kChunkBytes, plan_.give[own_].bytes);
    arrived_ = transfers_.scratch(slots * others_.size() * room_);
    if (sum_.data == nullptr) {
      sum_.data = transfers_.scratch(sum_.bytes);
    }
  }

  void run() {
    for (std::size_t i = 0; i < num_rounds_ + kAhead; ++i) {
      if (i < num_rounds_) {
        rounds_.push_back(begin(i));
      }
      if (i >= kAhead) {
        finish(i - kAhead);
      }
    }
    transfers_.wait_all();
  }

 private:
  static ByteRange chunk(const ByteRange& range, std::size_t index) {
    return chunk_of(range, kChunkBytes, index);
  }

  Round begin(std::size_t index) {
    Round round;
    round.inputs.resize(plan_.give.size());
    const ByteRange mine = chunk(plan_.give[own_], index);
    round.inputs[own_] = mine.data;
    // Reuses the memory of round index - kAhead - 1, which has been reduced.
    std::byte* room = arrived_ + index % (kAhead + 1) * others_.size() * room_;
    for (const int peer : others_) {
      round.inputs[static_cast<std::size_t>(peer)] = room;
      if (mine.bytes > 0) {
        round.arrivals.push_back(
            transfers_.receive(peer, Tag::Data, room, mine.bytes));
      }
      room += room_;
    }
    for (const int peer : others_) {
      const ByteRange theirs =
          chunk(plan_.give[static_cast<std::size_t>(peer)], index);
      if (theirs.bytes > 0) {
        round.departures.push_back(
            transfers_.send(peer, Tag::Data, theirs.data, theirs.bytes));
      }
    }
    return round;
  }

  void finish(std::size_t index) {
    const Round& round = rounds_[index];
    transfers_.wait(round.arrivals);
    const ByteRange sum = chunk(sum_, index);
    if (sum.bytes > 0) {
      comm::reduce(
          sum.data,
          round.inputs.data(),
          static_cast<int>(round.inputs.size()),
          sum.bytes / element_,
          plan_.reduction.dtype,
          plan_.reduction.op);
      for (const int peer : plan_.takers) {
        transfers_.send(peer, Tag::Sum, sum.data, sum.bytes);
      }
    }
    // In place, sums of others arrive where our inputs to them lie: those must
    // leave before the receives are posted.
    transfers_.wait(round.departures);
    for (const int peer : others_) {
      const ByteRange taken =
          chunk(plan_.take[static_cast<std::size_t>(peer)], index);
      if (taken.bytes > 0) {
        transfers_.receive(peer, Tag::Sum, taken.data, taken.bytes);
      }
    }
  }

  TransferSet& transfers_;
  const ReducePlan& plan_;
  const std::size_t own_; // our rank
  const std::vector<int> others_;
  const std::size_t element_;
  ByteRange sum_;
  std::size_t num_rounds_ = 0;
  std::size_t room_ = 0; // bytes of one chunk of our slice
  std::byte* arrived_ = nullptr;
  std::vector<Round> rounds_;
};

} // namespace

void run_reduce_plan(TransferSet& transfers, const ReducePlan& plan) {
  ReduceExecutor(transfers, plan).run();
}

ReducePlan all_reduce_plan(
    int rank,
    int size,
    const void* in,
    void* out,
    std::size_t count,
    Reduction reduction) {
  const std::size_t element = size_of(reduction.dtype);
  ReducePlan plan{
      .reduction = reduction,
      .give = sliced_ranges(in, count, element, size),
      .sum = {},
      .takers = {},
      .take = sliced_ranges(out, count, element, size)};
  plan.sum = plan.take[static_cast<std::size_t>(rank)];
  for (int step = 1; step < size; ++step) {
    plan.takers.push_back((rank + step) % size);
  }
  return plan;
}

ReducePlan reduce_plan(
    int rank,
    int size,
    const void* in,
    void* out,
    std::size_t count,
    Reduction reduction,
    int root) {
  ReducePlan plan = all_reduce_plan(rank, size, in, out, count, reduction);
  plan.takers.clear();
  if (rank != root) {
    plan.takers.push_back(root);
    plan.sum.data = nullptr;
    plan.take.assign(plan.take.size(), {});
  }
  return plan;
}

ReducePlan reduce_scatter_plan(
    int size,
    const Blocks& in,
    void* out,
    std::size_t count,
    Reduction reduction) {
  const std::size_t element = size_of(reduction.dtype);
  return {
      .reduction = reduction,
      .give = byte_ranges_of(in, element, size),
      .sum = {static_cast<std::byte*>(out), count * element},
      .takers = {},
      .take = ByteRanges(static_cast<std::size_t>(size))};
}

} // namespace argosy::comm::message
