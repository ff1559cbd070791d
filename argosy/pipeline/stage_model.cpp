#include "argosy/pipeline/stage_model.h"

#include <ATen/ops/tensor.h>

#include "argosy/common/error.h"
#include "argosy/mesh/hybrid_mesh.h"
#include "argosy/pipeline/shared_gradients.h"

namespace argosy::pipeline {

StageModel::StageModel(const GroupPtr& group, int chunks, PartOrder order)
    : group_(group_or_axis(group, "pipe")), chunks_(chunks), order_(order) {
  ARGOSY_CHECK(
      chunks >= 1, "[pipeline] chunks is {}, expected at least 1", chunks);
}

// A schedule without steps: only the places of the parts are read from it.
Schedule StageModel::layout() const {
  return {.stages = stages(), .chunks = chunks_, .order = order_};
}

void StageModel::set_shared_weights(std::vector<SharedWeight> weights) {
  shared_ = std::move(weights);
  share_weights(shared_, group_);
}

void broadcast_from_first(std::vector<double>& numbers, const GroupPtr& group) {
  const GroupPtr ranks = group ? group : get_group(0);
  at::Tensor told = at::tensor(numbers, at::kDouble);
  broadcast(told, ranks->ranks().front(), ranks);
  const auto* begin = told.data_ptr<double>();
  numbers.assign(begin, begin + told.numel());
}

} // namespace argosy::pipeline
