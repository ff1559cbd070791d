#include "argosy/ps/table/global_step.h"

#include <algorithm>

#include "argosy/common/error.h"
#include "argosy/ps/table/trainers.h"

namespace argosy::ps {

GlobalStep::GlobalStep(int num_trainers)
    : steps_(static_cast<std::size_t>(std::max(num_trainers, 0))) {
  check_num_trainers("global_step", num_trainers);
}

long long GlobalStep::add(int trainer, long long steps) {
  check_trainer("global_step", trainer, steps_.size());
  ARGOSY_CHECK(
      steps >= 0, "[ps.global_step] {} steps, expected at least 0", steps);
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
