#pragma once

#include <cstdint>
#include <iosfwd>
#include <vector>

#include "argosy/expert/expert_cut.h"

namespace argosy::expert {

// Rows that stay together when rows are reordered.
struct RowBlock {
  std::int64_t from = 0;
  std::int64_t to = 0;
  std::int64_t rows = 0;

  bool operator==(const RowBlock&) const = default;
};

// How rows get to the experts of a group of ranks. Rows are sent in the order
// of the experts, rank by rank. They arrive in the order of the sending ranks,
// and are then reordered so that the rows of each local expert lie together,
// those from the first rank first.
struct AllToAllPlan {
  std::vector<std::int64_t> sends;       // rows to each rank
  std::vector<std::int64_t> receives;    // rows from each rank
  std::vector<RowBlock> blocks;          // empty: they arrive in order
  std::vector<std::int64_t> expert_rows; // rows of each local expert

  std::int64_t num_sent() const;
  std::int64_t num_received() const;
  bool operator==(const AllToAllPlan&) const = default;
};

std::ostream& operator<<(std::ostream& out, const AllToAllPlan& plan);

// `local_count[e]` rows go to expert e of all ranks, which experts_of() divides
// over them. With n local experts, `global_count[rank * n + e]` rows come from
// that rank for the local expert e. Throws InvalidArgument if counts are
// negative, or not as many as that.
AllToAllPlan plan_all_to_all(
    const std::vector<std::int64_t>& local_count,
    const std::vector<std::int64_t>& global_count,
    const Member& member);

} // namespace argosy::expert
