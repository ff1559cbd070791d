#include "argosy/fleet/input_check.h"

#include <ATen/core/Tensor.h>

#include "argosy/comm/group.h"
#include "argosy/comm/same_values.h"
#include "argosy/common/error.h"
#include "argosy/dtensor/dtensor.h"
#include "argosy/dtensor/tensor/value_checks.h"

namespace argosy::fleet {

void InputCheck::compare(const Tensors& tensors, const char* what) {
  if (left_ == 0) {
    return;
  }
  --left_;
  std::vector<std::pair<std::string, at::Tensor>> plain;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].defined() && !is_dtensor(tensors[i])) {
      plain.emplace_back(str("tensor ", i), tensors[i]);
    }
  }
  const std::string difference = comm::first_difference(plain, group_);
  ARGOSY_CHECK(
      difference.empty(),
      "[fleet.distributed_model] the {} must be the same on the ranks of a "
      "tensor parallel group (hybrid_configs.mp_degree). Give samplers "
      "fleet::data_num() and fleet::data_rank() as num_replicas and rank, or "
      "call fleet::utils::broadcast_input_data() before forward: {}. "
      "ARGOSY_CHECK_VALUES=0 switches this check off",
      what,
      difference);
}

std::shared_ptr<InputCheck> make_input_check(const GroupPtr& group) {
  const int times = dtensor::value_checks()->times();
  return group->nranks() > 1 && times > 0
      ? std::make_shared<InputCheck>(group, times)
      : nullptr;
}

} // namespace argosy::fleet
