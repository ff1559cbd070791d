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

void StageModel::recompute_modules(
    const std::vector<std::string>& patterns, const RecomputeOptions& options) {
  ARGOSY_CHECK(
      !recomputes_all(),
      "[pipeline.recompute] modules to recompute by name, in a model whose "
      "option recompute_interval or recompute runs all layers again: leave "
      "one of the two out");
  // The other stages have other modules.
  std::vector<int> matches;
  for (const std::string& each : patterns) {
    matches.push_back(RecomputedModules::matches(module(), each) ? 1 : 0);
  }
  at::Tensor anywhere = at::tensor(matches, at::kInt);
  all_reduce(anywhere, ReduceOp::MAX, group_);
  std::vector<std::string> own;
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    ARGOSY_CHECK(
        anywhere[static_cast<std::int64_t>(i)].item<int>() == 1,
        "[pipeline.recompute] no stage has a module with parameters that "
        "matches \"{}\"",
        patterns[i]);
    if (matches[i] == 1) {
      own.push_back(patterns[i]);
    }
  }
  recomputed_ = own.empty()
      ? nullptr
      : std::make_unique<const RecomputedModules>(module(), own, options);
}

void broadcast_from_first(std::vector<double>& numbers, const GroupPtr& group) {
  const GroupPtr ranks = group ? group : get_group(0);
  at::Tensor told = at::tensor(numbers, at::kDouble);
  broadcast(told, ranks->ranks().front(), ranks);
  const auto* begin = told.data_ptr<double>();
  numbers.assign(begin, begin + told.numel());
}

} // namespace argosy::pipeline
