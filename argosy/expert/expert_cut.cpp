#include "argosy/expert/expert_cut.h"

#include <algorithm>
#include <ostream>

namespace argosy::expert {

std::ostream& operator<<(std::ostream& out, const ExpertRange& range) {
  return out << range.begin << "+" << range.size;
}

ExpertRange experts_of(std::int64_t num_experts, const Member& member) {
  const std::int64_t each = num_experts / member.ranks;
  const std::int64_t more = num_experts % member.ranks;
  const std::int64_t rank = member.rank;
  return {rank * each + std::min(rank, more), each + (rank < more ? 1 : 0)};
}

std::vector<std::int64_t> experts_by_rank(std::int64_t num_experts, int ranks) {
  std::vector<std::int64_t> sizes;
  for (int rank = 0; rank < ranks; ++rank) {
    sizes.push_back(experts_of(num_experts, {ranks, rank}).size);
  }
  return sizes;
}

} // namespace argosy::expert
