#include "argosy/elastic/recovery_plan.h"

#include <algorithm>
#include <ostream>

#include "argosy/common/error.h"
#include "argosy/common/text.h"

namespace argosy::elastic {

RecoveryPlan plan_recovery(const std::vector<std::int64_t>& applied) {
  RecoveryPlan plan;
  plan.step = *std::ranges::max_element(applied);
  for (int rank = 0; rank < static_cast<int>(applied.size()); ++rank) {
    const std::int64_t step = applied[static_cast<std::size_t>(rank)];
    if (step == kNoState) {
      plan.newcomers.push_back(rank);
      continue;
    }
    ARGOSY_ASSERT(
        plan.step - step <= 1,
        "rank {} has applied {} steps and another one {}: at most one apart is "
        "possible",
        rank,
        step,
        plan.step);
    if (step < plan.step) {
      plan.late.push_back(rank);
    } else if (plan.source < 0) {
      plan.source = rank;
    }
  }
  return plan;
}

std::ostream& operator<<(std::ostream& out, const RecoveryPlan& plan) {
  return out << "step " << plan.step << ", source " << plan.source << ", late ["
             << ranges_text(plan.late) << "], newcomers ["
             << ranges_text(plan.newcomers) << "]";
}

} // namespace argosy::elastic
