#include "argosy/comm/message/reductions.h"

#include <algorithm>

#include "argosy/comm/kernels/reduce.h"

namespace argosy::comm::message {

namespace {

constexpr std::size_t kPieceBytes = std::size_t{512} << 10;
// Pieces that are under way while one is added up.
constexpr std::size_t kAhead = 3;

// One piece of every slice, on its way to the ranks that add it up.
struct Round {
  std::vector<const void*> inputs; // of our slice, by rank
  std::vector<std::size_t> arrivals;
  std::vector<std::size_t> departures;
};

class Summing {
 public:
  Summing(Flight& flight, const Summation& summation)
      : flight_(flight),
        plan_(summation),
        own_(static_cast<std::size_t>(flight.rank())),
        others_(flight.others()),
        element_(size_of(plan_.reduction.dtype)),
        sum_(plan_.sum) {
    std::size_t longest = 0;
    for (const Part& part : plan_.give) {
      longest = std::max(longest, part.bytes);
    }
    num_rounds_ = (longest + kPieceBytes - 1) / kPieceBytes;
    const std::size_t slots = std::min(kAhead + 1, num_rounds_);
    room_ = std::min(kPieceBytes, plan_.give[own_].bytes);
    arrived_ = flight_.scratch(slots * others_.size() * room_);
    if (sum_.data == nullptr) {
      sum_.data = flight_.scratch(sum_.bytes);
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
    flight_.wait_all();
  }

 private:
  static Part piece(const Part& part, std::size_t index) {
    return piece_of(part, kPieceBytes, index);
  }

  Round begin(std::size_t index) {
    Round round;
    round.inputs.resize(plan_.give.size());
    const Part mine = piece(plan_.give[own_], index);
    round.inputs[own_] = mine.data;
    std::byte* room = arrived_ + index % (kAhead + 1) * others_.size() * room_;
    for (const int peer : others_) {
      round.inputs[static_cast<std::size_t>(peer)] = room;
      if (mine.bytes > 0) {
        round.arrivals.push_back(
            flight_.receive(peer, Tag::Data, room, mine.bytes));
      }
      room += room_;
    }
    for (const int peer : others_) {
      const Part theirs =
          piece(plan_.give[static_cast<std::size_t>(peer)], index);
      if (theirs.bytes > 0) {
        round.departures.push_back(
            flight_.send(peer, Tag::Data, theirs.data, theirs.bytes));
      }
    }
    return round;
  }

  void finish(std::size_t index) {
    const Round& round = rounds_[index];
    flight_.wait(round.arrivals);
    const Part sum = piece(sum_, index);
    if (sum.bytes > 0) {
      comm::reduce(
          sum.data,
          round.inputs.data(),
          static_cast<int>(round.inputs.size()),
          sum.bytes / element_,
          plan_.reduction.dtype,
          plan_.reduction.op);
      for (const int peer : plan_.takers) {
        flight_.send(peer, Tag::Sum, sum.data, sum.bytes);
      }
    }
    // Sums may come to where these lie.
    flight_.wait(round.departures);
    for (const int peer : others_) {
      const Part taken =
          piece(plan_.take[static_cast<std::size_t>(peer)], index);
      if (taken.bytes > 0) {
        flight_.receive(peer, Tag::Sum, taken.data, taken.bytes);
      }
    }
  }

  Flight& flight_;
  const Summation& plan_;
  const std::size_t own_; // our rank
  const std::vector<int> others_;
  const std::size_t element_;
  Part sum_;
  std::size_t num_rounds_ = 0;
  std::size_t room_ = 0; // bytes of one piece of our slice
  std::byte* arrived_ = nullptr;
  std::vector<Round> rounds_;
};

} // namespace

void add_up(Flight& flight, const Summation& summation) {
  Summing(flight, summation).run();
}

Summation all_reduce_plan(
    int rank,
    int size,
    const void* in,
    void* out,
    std::size_t count,
    Reduction reduction) {
  const std::size_t element = size_of(reduction.dtype);
  Summation plan{
      .reduction = reduction,
      .give = slices_of(in, count, element, size),
      .sum = {},
      .takers = {},
      .take = slices_of(out, count, element, size)};
  plan.sum = plan.take[static_cast<std::size_t>(rank)];
  for (int step = 1; step < size; ++step) {
    plan.takers.push_back((rank + step) % size);
  }
  return plan;
}

Summation reduce_plan(
    int rank,
    int size,
    const void* in,
    void* out,
    std::size_t count,
    Reduction reduction,
    int root) {
  Summation plan = all_reduce_plan(rank, size, in, out, count, reduction);
  plan.takers.clear();
  if (rank != root) {
    plan.takers.push_back(root);
    plan.sum.data = nullptr;
    plan.take.assign(plan.take.size(), {});
  }
  return plan;
}

Summation reduce_scatter_plan(
    int size,
    const Blocks& in,
    void* out,
    std::size_t count,
    Reduction reduction) {
  const std::size_t element = size_of(reduction.dtype);
  return {
      .reduction = reduction,
      .give = parts_of(in, element, size),
      .sum = {static_cast<std::byte*>(out), count * element},
      .takers = {},
      .take = Parts(static_cast<std::size_t>(size))};
}

} // namespace argosy::comm::message
