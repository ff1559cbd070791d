#include "argosy/compat/shard_op.h"

#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

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

// Einsum letters for the dims of the input and of the weight.
std::vector<std::string> letters_of(const torch::nn::Module& layer) {
  if (dynamic_cast<const torch::nn::LinearImpl*>(&layer) != nullptr) {
    // Linear contracts k; LibTorch stores its weight as (out, in).
    return {"bk", "ok"};
  }
  ARGOSY_CHECK(
      dynamic_cast<const torch::nn::EmbeddingImpl*>(&layer) != nullptr,
      "[shard_layer_by] {}, expected Linear or Embedding; shard_op() takes any "
      "op",
      layer.name());
  // An embedding looks up rows, so that input and weight share no dim.
  return {"bl", "vh"};
}

// The strategy names two dims; an input with more keeps those between whole.
Placements with_last_dim(Placements placements, std::int64_t dims) {
  for (std::size_t axis = 0; axis < placements.size(); ++axis) {
    if (placements[axis].is_shard(1)) {
      placements[axis] = Shard(static_cast<int>(dims) - 1);
    }
  }
  return placements;
}

// A bias is sharded as dim 0 of the weight is.
Placements bias_placements(Placements weight) {
  for (std::size_t axis = 0; axis < weight.size(); ++axis) {
    if (!weight[axis].is_shard(0)) {
      weight[axis] = Replicate();
    }
  }
  return weight;
}

void place(
    const at::Tensor& parameter,
    const ProcessMesh& mesh,
    const Placements& placements) {
  shard_tensor_(parameter, mesh, placements);
  // Keeps ops from gathering the weight where they could move the input.
  auto& pinned = dtensor::require_parts(parameter, "shard_layer_by").pinned;
  for (std::size_t axis = 0; axis < placements.size(); ++axis) {
    if (placements[axis].is_shard()) {
      pinned |= static_cast<std::uint8_t>(1u << axis);
    }
  }
}

} // namespace

void shard_layer_by(
    torch::nn::Module& layer,
    const ProcessMesh& mesh,
    const OpStrategy& strategy) {
  const auto placements =
      strategy_placements(mesh, letters_of(layer), strategy);
  for (const auto& each : layer.named_parameters(false)) {
    // Only Linear and Embedding get here: a parameter of one dim is a bias.
    place(
        each.value(),
        mesh,
        each.value().dim() == 2 ? placements[1]
                                : bias_placements(placements[1]));
  }
  semi_auto::apply_plan(
      {layer.name(), layer, mesh, 0},
      PrepareLayerInput{[input = placements[0]](
                            const at::Tensor& tensor, const ProcessMesh& on) {
        return shard_tensor(tensor, on, with_last_dim(input, tensor.dim()));
      }});
}

} // namespace argosy
