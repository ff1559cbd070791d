#pragma once

#include <cstdint>
#include <iosfwd>
#include <vector>

namespace argosy::expert {

// Rows that stay side by side when others are put between them.
struct RowBlock {
  std::int64_t from = 0;
  std::int64_t to = 0;
  std::int64_t rows = 0;

  bool operator==(const RowBlock&) const = default;
};

// How rows get to the experts of a group of ranks. Rows are sent in the order
// of the experts, rank by rank; what arrives is ordered by the rank it is from,
// and is moved so that each local expert has its rows side by side, those of
// the first rank first.
struct AllToAllPlan {
  std::vector<std::int64_t> sends;       // to each rank
  std::vector<std::int64_t> receives;    // from each rank
  std::vector<RowBlock> blocks;          // none: they arrive as they shall be
  std::vector<std::int64_t> expert_rows; // of each local expert

  std::int64_t num_sent() const;
  std::int64_t num_received() const;
  bool operator==(const AllToAllPlan&) const = default;
};

std::ostream& operator<<(std::ostream& out, const AllToAllPlan& plan);

// `local_count[i]`, i = rank * n + e, says how many rows go to expert e of that
// rank, and `global_count[i]` how many come from that rank for the local expert
// e. Throws InvalidArgument for counts that do not fit `ranks` or are negative.
AllToAllPlan plan_all_to_all(
    const std::vector<std::int64_t>& local_count,
    const std::vector<std::int64_t>& global_count,
    int ranks);

} // namespace argosy::expert
