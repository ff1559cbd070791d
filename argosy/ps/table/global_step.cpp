#include "argosy/ps/table/global_step.h"

#include <algorithm>

#include "argosy/common/error.h"

namespace argosy::ps {

GlobalStep::GlobalStep(int num_trainers)
    : steps_(static_cast<std::size_t>(std::max(num_trainers, 0))) {
  ARGOSY_CHECK(
      num_trainers > 0,
      "[ps.global_step] {} trainers, expected at least 1",
      num_trainers);
}

long long GlobalStep::add(int trainer, long long steps) {
  ARGOSY_CHECK(
      trainer >= 0 && trainer < static_cast<int>(steps_.size()) && steps >= 0,
      "[ps.global_step] {} steps of trainer {}, expected at least 0 of trainer "
      "0 to {}",
      steps,
      trainer,
      steps_.size() - 1);
  steps_[static_cast<std::size_t>(trainer)] += steps;
  total_ += steps;
  return total_;
}

long long GlobalStep::of(int trainer) const {
  return steps_.at(static_cast<std::size_t>(trainer));
}

void GlobalStep::set_total(long long total) {
  ARGOSY_CHECK(
      total >= 0, "[ps.global_step] total {}, expected at least 0", total);
  total_ = total;
}

} // namespace argosy::ps
