#include "argosy/semi_auto/split.h"

#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include "argosy/common/error.h"
#include "argosy/dtensor/deferred_init.h"
#include "argosy/mesh/rank_mesh.h"
#include "argosy/semi_auto/layer_plan.h"

namespace argosy {

namespace {

std::shared_ptr<torch::nn::Module> make_layer(
    const std::array<std::int64_t, 2>& size,
    bool is_linear,
    const SplitOptions& options) {
  // No rank ever holds the whole weight: memory is allocated after the plan has
  // sharded it.
  const DeferredInit without_memory;
  if (is_linear) {
    return std::make_shared<torch::nn::LinearImpl>(
        torch::nn::LinearOptions(size[0], size[1]).bias(options.bias));
  }
  return std::make_shared<torch::nn::EmbeddingImpl>(size[0], size[1]);
}

LayerPlans plans_of(const SplitOptions& options, int axis) {
  if (options.axis == 1) {
    return ColWiseParallel{.gather_output = options.gather_out};
  }
  LayerPlans plans = RowWiseParallel();
  if (options.gather_out) {
    plans.emplace_back(PrepareLayerOutput{
        [axis](const at::Tensor& tensor, const ProcessMesh& mesh) {
          Placements placements = placements_of(tensor);
          placements[static_cast<std::size_t>(axis)] = Replicate();
          return reshard(tensor, mesh, placements);
        }});
  }
  return plans;
}

} // namespace

SplitLayer::SplitLayer(
    std::shared_ptr<torch::nn::Module> module, bool is_linear)
    : module_(std::move(module)), is_linear_(is_linear) {}

at::Tensor SplitLayer::operator()(const at::Tensor& x) const {
  return is_linear_ ? module_->as<torch::nn::LinearImpl>()->forward(x)
                    : module_->as<torch::nn::EmbeddingImpl>()->forward(x);
}

SplitLayer split(
    const std::array<std::int64_t, 2>& size,
    const std::string& operation,
    const ProcessMesh& mesh,
    const SplitOptions& options) {
  const bool is_linear = operation == "linear";
  ARGOSY_CHECK(
      is_linear || operation == "embedding",
      "[split] operation {}, expected linear or embedding",
      operation);
  ARGOSY_CHECK(
      options.axis == 0 || options.axis == 1,
      "[split] axis {}, expected 0 or 1",
      options.axis);
  const int axis = mesh.ndim() == 1 ? 0 : mesh.axis_index("mp");
  const auto module = make_layer(size, is_linear, options);
  const semi_auto::PlannedLayer layer{operation, *module, mesh, axis};
  for (const LayerPlan& plan : plans_of(options, axis)) {
    semi_auto::apply_plan(layer, plan);
  }
  shard_layer(*module, mesh);
  return {module, is_linear};
}

SplitLayer split(
    const std::array<std::int64_t, 2>& size,
    const std::string& operation,
    const SplitOptions& options) {
  return split(size, operation, require_mesh("split"), options);
}

} // namespace argosy
