#include "argosy/ps/table/barrier_table.h"

#include <algorithm>

#include "argosy/common/error.h"
#include "argosy/ps/table/trainers.h"

namespace argosy::ps {

BarrierTable::BarrierTable(int num_trainers)
    : here_(static_cast<std::size_t>(std::max(num_trainers, 0))) {
  check_num_trainers("barrier", num_trainers);
}

bool BarrierTable::arrive(int trainer) {
  check_trainer("barrier", trainer, here_.size());
  ARGOSY_CHECK(
      !here_[static_cast<std::size_t>(trainer)],
      "[ps.barrier] trainer {} arrives twice in round {}",
      trainer,
      rounds_);
  here_[static_cast<std::size_t>(trainer)] = true;
  if (++num_here_ < static_cast<int>(here_.size())) {
    return false;
  }
  here_.assign(here_.size(), false);
  num_here_ = 0;
  ++rounds_;
  return true;
}

void BarrierTable::withdraw(int trainer) {
  const auto index = static_cast<std::size_t>(trainer);
  if (trainer >= 0 && index < here_.size() && here_[index]) {
    here_[index] = false;
    --num_here_;
  }
}

std::vector<int> BarrierTable::missing() const {
  std::vector<int> trainers;
  for (std::size_t i = 0; i < here_.size(); ++i) {
    if (!here_[i]) {
      trainers.push_back(static_cast<int>(i));
    }
  }
  return trainers;
}

} // namespace argosy::ps
