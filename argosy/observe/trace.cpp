#include "argosy/observe/trace.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

namespace argosy::observe {

namespace {

struct Participant {
  std::size_t rank;
  std::size_t operation;
  std::int64_t begin_ns;
  bool gives; // alone
};

// Identifies an operation on all of its ranks: group, from, to and sequence.
// Sequences count within the group, or between two ranks for messages.
using Key = std::tuple<int, int, int, std::uint64_t>;

// The participants of each operation, in rank order.
std::map<Key, std::vector<Participant>> participants_of(
    const std::vector<RankTrace>& ranks) {
  std::map<Key, std::vector<Participant>> participants;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const auto& operations = ranks[rank].operations;
    for (std::size_t i = 0; i < operations.size(); ++i) {
      const TraceOperation& each = operations[i];
      participants[{each.group, each.from, each.to, each.sequence}].push_back(
          {rank, i, each.begin_ns, each.from == ranks[rank].rank});
    }
  }
  return participants;
}

// A root or sender wins; otherwise the rank that began last.
const Participant& giver(const std::vector<Participant>& participants) {
  return *std::ranges::max_element(
      participants, [](const Participant& a, const Participant& b) {
        return std::tuple(a.gives, a.begin_ns) <
            std::tuple(b.gives, b.begin_ns);
      });
}

} // namespace

std::vector<Arrow> arrows_between(const std::vector<RankTrace>& ranks) {
  std::vector<Arrow> arrows;
  for (const auto& [key, participants] : participants_of(ranks)) {
    const Participant& from = giver(participants);
    for (const Participant& to : participants) {
      if (to.rank != from.rank) {
        arrows.push_back({from.rank, from.operation, to.rank, to.operation});
      }
    }
  }
  return arrows;
}

// Takes operations by their begin and reuses the first lane that is free, which
// needs no more lanes than operations overlap. O(n log n + n * lanes).
std::vector<int> lanes_of(const std::vector<TraceOperation>& operations) {
  std::vector<std::size_t> order(operations.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    return operations[a].begin_ns < operations[b].begin_ns;
  });
  std::vector<std::int64_t> free_from; // by lane
  std::vector<int> lanes(operations.size());
  for (const std::size_t i : order) {
    const auto lane = std::ranges::find_if(free_from, [&](std::int64_t end) {
      return end <= operations[i].begin_ns;
    });
    lanes[i] = static_cast<int>(lane - free_from.begin());
    if (lane == free_from.end()) {
      free_from.push_back(operations[i].end_ns);
    } else {
      *lane = operations[i].end_ns;
    }
  }
  return lanes;
}

} // namespace argosy::observe
