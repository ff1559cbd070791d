#pragma once

#include <cstdint>
#include <iosfwd>
#include <vector>

// Which experts each rank of a group has. Not installed.
namespace argosy::expert {

// A rank of a group of experts.
struct Member {
  int ranks = 1; // of the group
  int rank = 0;
};

struct ExpertRange {
  std::int64_t begin = 0;
  std::int64_t size = 0;

  bool operator==(const ExpertRange&) const = default;
};

std::ostream& operator<<(std::ostream& out, const ExpertRange& range);

// The experts of a rank. Where they do not divide by the ranks, the first ranks
// have one more, so that with fewer experts than ranks the last have none.
// (comm::shard_range() would leave ranks idle that could have an expert.)
ExpertRange experts_of(std::int64_t num_experts, const Member& member);

// The number of experts of each rank.
std::vector<std::int64_t> experts_by_rank(std::int64_t num_experts, int ranks);

} // namespace argosy::expert
