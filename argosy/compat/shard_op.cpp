#include "argosy/compat/shard_op.h"

#include <torch/nn/module.h>

#include <utility>

#include "argosy/common/error.h"
#include "argosy/dtensor/tensor/tensor.h"
#include "argosy/semi_auto/layer_plan.h"

namespace argosy {

std::function<at::Tensor(const std::vector<at::Tensor>&)> shard_op(
    std::function<at::Tensor(const std::vector<at::Tensor>&)> op,
    const ProcessMesh& mesh,
    const std::vector<std::string>& letters,
    const OpStrategy& strategy) {
  return [op = std::move(op),
          mesh,
          placements = strategy_placements(mesh, letters, strategy)](
             const std::vector<at::Tensor>& operands) {
    ARGOSY_CHECK(
        operands.size() == placements.size(),
        "[shard_op] {} operands, expected {}",
        operands.size(),
        placements.size());
    std::vector<at::Tensor> placed;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      placed.push_back(shard_tensor(operands[i], mesh, placements[i]));
    }
    return op(placed);
  };
}

namespace {

// Keeps ops from gathering a state where they could move the input.
void pin(const at::Tensor& state, const Placements& placements) {
  auto& pinned = dtensor::require_parts(state, "shard_layer_by").pinned;
  for (std::size_t axis = 0; axis < placements.size(); ++axis) {
    if (placements[axis].is_shard()) {
      pinned |= static_cast<std::uint8_t>(1u << axis);
    }
  }
}

// Undefined when the layer has no such state: a bias, running statistics.
at::Tensor find_state(const torch::nn::Module& layer, const std::string& name) {
  const auto parameters = layer.named_parameters();
  const auto buffers = layer.named_buffers();
  const at::Tensor* found = parameters.find(name);
  found = found != nullptr ? found : buffers.find(name);
  return found == nullptr ? at::Tensor() : *found;
}

void place_states(
    torch::nn::Module& layer,
    const ProcessMesh& mesh,
    const compat::LayerPlacements& placed) {
  for (const auto& [name, placements] : placed.states) {
    const at::Tensor state = find_state(layer, name);
    if (state.defined()) {
      shard_tensor_(state, mesh, placements);
      pin(state, placements);
    }
  }
  shard_layer(layer, mesh); // the rest is whole
}

} // namespace

InputFn shard_layer_by(
    torch::nn::Module& layer,
    const ProcessMesh& mesh,
    const LayerRule& rule,
    const OpStrategy& strategy) {
  const auto placed = compat::place_layer(mesh, rule, strategy);
  semi_auto::check_initial_values(layer, mesh, "shard_layer_by");
  const dtensor::TrustedValues compared;
  place_states(layer, mesh, placed);
  const auto place = [placed](const at::Tensor& input, const ProcessMesh& on) {
    return shard_tensor(input, on, placed.of_input(input.dim()));
  };
  if (!layer.parameters(/*recurse=*/false).empty()) {
    semi_auto::apply_plan(
        {layer.name(), layer, mesh, 0}, PrepareLayerInput{place});
  }
  return [place, mesh](const at::Tensor& input) { return place(input, mesh); };
}

InputFn shard_layer_by(
    torch::nn::Module& layer,
    const ProcessMesh& mesh,
    const OpStrategy& strategy) {
  return shard_layer_by(layer, mesh, compat::rule_of(layer), strategy);
}

} // namespace argosy
