#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <vector>

#include "argosy/expert/moe_layer.h"
#include "argosy/tensor_parallel/rng.h"
#include "argosy/world/world.h"

// A layer of experts as one process has it, written without the pieces that the
// parallel one has: every expert on the tokens that chose it, one by one.
namespace argosy::testing {

using GateMaker = std::function<std::shared_ptr<GateImpl>(const GroupPtr&)>;

// This rank, as a group.
inline GroupPtr alone() {
  const auto world = current_world();
  return shared_group(world, {world->rank()});
}

class DenseMoe {
 public:
  // The layer with all experts on this rank.
  explicit DenseMoe(MoELayer layer) : layer_(std::move(layer)) {}

  at::Tensor forward(const at::Tensor& tokens) {
    const Routing routing = layer_->gate->forward(tokens);
    at::Tensor y = torch::zeros_like(tokens);
    for (long k = 0; k < routing.experts.size(1); ++k) {
      for (long e = 0; e < layer_->options.num_experts(); ++e) {
        const at::Tensor those =
            routing.experts.select(1, k).eq(e).nonzero().squeeze(1);
        const at::Tensor rows = expert(e, tokens.index_select(0, those));
        const at::Tensor weight =
            routing.weights.select(1, k).index_select(0, those);
        y = y.index_add(0, those, rows * weight.unsqueeze(1).to(rows.dtype()));
      }
    }
    return y;
  }

  MoELayer& layer() { return layer_; }

 private:
  at::Tensor expert(long e, const at::Tensor& x) {
    if (!layer_->grouped) {
      return layer_->experts[e].forward(x);
    }
    const auto& g = *layer_->grouped;
    at::Tensor hidden = active(torch::matmul(x, g.weight1[e]) + g.bias1[e]);
    if (g.weight3.defined()) {
      hidden = hidden * (torch::matmul(x, g.weight3[e]) + g.bias3[e]);
    }
    return torch::matmul(hidden, g.weight2[e]) + g.bias2[e];
  }

  at::Tensor active(const at::Tensor& x) const {
    switch (layer_->options.activation()) {
      case ExpertActivation::Relu:
        return torch::relu(x);
      case ExpertActivation::Silu:
      case ExpertActivation::SwiGlu:
        return torch::silu(x);
      default:
        return torch::gelu(x);
    }
  }

  MoELayer layer_;
};

// Two layers with the same first values: with experts on all ranks of a group,
// and with all experts on this one.
struct Pair {
  MoELayer own;
  DenseMoe whole;
};

inline Pair make_pair(
    MoELayerOptions options,
    const GateMaker& gate,
    at::ScalarType type = torch::kDouble) {
  const GroupPtr group = options.group() ? options.group() : get_group(0);
  const auto make = [&](const GroupPtr& members, const GroupPtr& mp) {
    model_parallel_random_seed(3, {});
    options.gate(gate(members)).group(members).mp_group(mp);
    MoELayer layer(options);
    layer->to(type);
    return layer;
  };
  const GroupPtr mp = options.mp_group();
  MoELayer own = make(group, mp);
  return {own, DenseMoe(make(alone(), nullptr))};
}

} // namespace argosy::testing
