#include "argosy/semi_auto/layer_plan.h"

#include <torch/nn/module.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include <memory>

#include "argosy/common/error.h"
#include "argosy/dtensor/tensor/tensor.h"

namespace argosy::semi_auto {

namespace {

using dtensor::LayerHooks;

std::size_t axis_of(const PlannedLayer& layer) {
  return static_cast<std::size_t>(layer.axis);
}

// Shards a parameter over the axis and pins it, so that ops do not gather it.
void cut(const PlannedLayer& layer, const at::Tensor& parameter, int dim) {
  Placements placements = is_dtensor(parameter)
      ? placements_of(parameter)
      : Placements(static_cast<std::size_t>(layer.mesh.ndim()), Replicate());
  placements[axis_of(layer)] = Shard(dim);
  const auto before = dtensor::parts_of(parameter);
  // shard_tensor_() replaces the parts, and the hooks of an earlier plan with
  // them: they are carried over.
  const auto hooks = before != nullptr ? before->hooks : nullptr;
  shard_tensor_(parameter, layer.mesh, placements);
  dtensor::require_parts(parameter, "parallelize").pinned |=
      static_cast<std::uint8_t>(1u << layer.axis);
  if (hooks != nullptr) {
    dtensor::set_hooks(parameter, hooks);
  }
}

template <typename Layer>
bool is(const torch::nn::Module& module) {
  return dynamic_cast<const Layer*>(&module) != nullptr;
}

bool is_embedding(const torch::nn::Module& module) {
  return is<torch::nn::EmbeddingImpl>(module);
}

enum class Side { Outputs, Inputs };

// The weight dim that corresponds to the layer's outputs or inputs. Weights are
// [outputs, inputs, ...] in LibTorch, except Embedding's, which is [inputs,
// outputs].
int dim_of(const PlannedLayer& layer, const at::Tensor& weight, Side side) {
  ARGOSY_CHECK(
      weight.dim() >= 2,
      "[parallelize] the weight of {} has {} dims, expected 2 or more as of "
      "Linear, Embedding or a convolution",
      layer.name,
      weight.dim());
  return (side == Side::Outputs) != is_embedding(layer.module) ? 0 : 1;
}

void shard_parameters(
    const PlannedLayer& layer, Side side, const std::string& only) {
  bool found = false;
  for (const auto& each : layer.module.named_parameters(false)) {
    if (!only.empty() && each.key() != only) {
      continue;
    }
    found = true;
    if (each.value().dim() >= 2) {
      cut(layer, each.value(), dim_of(layer, each.value(), side));
    } else if (side == Side::Outputs) {
      // With Side::Inputs a bias stays whole: each rank has a partial sum of
      // all outputs.
      cut(layer, each.value(), 0); // a bias, one element per output
    }
  }
  ARGOSY_CHECK(found, "[parallelize] {} has no parameter to shard", layer.name);
}

// Changes the placement on the layer's axis. A plain tensor counts as
// replicated.
LayerHooks::Change change_to(const PlannedLayer& layer, Placement placement) {
  // By value: the hook lives as long as the layer's parameters.
  return [mesh = layer.mesh, axis = axis_of(layer), placement](
             const at::Tensor& tensor) {
    Placements placements = is_dtensor(tensor)
        ? placements_of(tensor)
        : Placements(static_cast<std::size_t>(mesh.ndim()), Replicate());
    // A negative dim counts from the end, which only the tensor at hand tells.
    const int dim = static_cast<int>(tensor.dim());
    placements[axis] = placement.is_shard() && placement.dim() < 0
        ? Placement(Shard(dim + placement.dim()))
        : placement;
    return shard_tensor(tensor, mesh, placements);
  };
}

LayerHooks::Change change_by(const PlannedLayer& layer, const LayerFn& fn) {
  ARGOSY_CHECK(
      fn != nullptr,
      "[parallelize] the plan of {} has no function",
      layer.name);
  return [mesh = layer.mesh, fn](const at::Tensor& tensor) {
    return fn(tensor, mesh);
  };
}

// Modules have no forward hooks in LibTorch. So the hook is stored in the
// layer's parameters and runs when an op uses one of them.
void add_hook(
    const PlannedLayer& layer,
    std::vector<LayerHooks::Change> LayerHooks::*side,
    const LayerHooks::Change& change) {
  const auto parameters = layer.module.named_parameters(false);
  ARGOSY_CHECK(
      !parameters.is_empty(),
      "[parallelize] {} has no parameter of its own, so hooks cannot tell when "
      "it runs; apply the plan to a layer within it, or call reshard() in the "
      "model",
      layer.name);
  for (const auto& each : parameters) {
    if (!is_dtensor(each.value())) {
      // Only DTensors have room for hooks; replicated, it computes the same.
      shard_tensor_(
          each.value(),
          layer.mesh,
          Placements(static_cast<std::size_t>(layer.mesh.ndim()), Replicate()));
    }
    const auto& before =
        dtensor::require_parts(each.value(), "parallelize").hooks;
    // A copy: hooks are constant once a parameter has them.
    auto hooks = before != nullptr ? std::make_shared<LayerHooks>(*before)
                                   : std::make_shared<LayerHooks>();
    // Both multiply by weight.t().
    hooks->is_linear = is<torch::nn::LinearImpl>(layer.module) ||
        is<torch::nn::MultiheadAttentionImpl>(layer.module);
    ((*hooks).*side).push_back(change);
    dtensor::set_hooks(each.value(), std::move(hooks));
  }
}

// One overload for each kind of plan.
struct Applier {
  const PlannedLayer& layer;
  const std::string& parameter;

  void operator()(const ColWiseParallel& plan) const {
    shard_parameters(layer, Side::Outputs, parameter);
    if (plan.gather_output) {
      after(Replicate());
    }
  }
  void operator()(const RowWiseParallel& plan) const {
    shard_parameters(layer, Side::Inputs, parameter);
    // An embedding is cut by its rows, the tokens: each rank looks up all
    // indices and contributes those that it has, so its input stays whole.
    if (!plan.is_input_parallel && !is_embedding(layer.module)) {
      before(Shard(-1));
    }
  }
  void operator()(const PrepareLayerInput& plan) const {
    add_hook(layer, &LayerHooks::inputs, change_by(layer, plan.fn));
  }
  void operator()(const PrepareLayerOutput& plan) const {
    add_hook(layer, &LayerHooks::outputs, change_by(layer, plan.fn));
  }
  void operator()(const SequenceParallelBegin& plan) const {
    after(Shard(plan.dim));
  }
  void operator()(const SequenceParallelEnd&) const { before(Replicate()); }
  void operator()(const SequenceParallelEnable& plan) const {
    before(Shard(plan.dim));
    after(Replicate());
  }
  void operator()(const SequenceParallelDisable& plan) const {
    before(Replicate());
    after(Shard(plan.dim));
  }

 private:
  void before(Placement placement) const {
    add_hook(layer, &LayerHooks::inputs, change_to(layer, placement));
  }
  void after(Placement placement) const {
    add_hook(layer, &LayerHooks::outputs, change_to(layer, placement));
  }
};

} // namespace

void apply_plan(
    const PlannedLayer& layer,
    const LayerPlan& plan,
    const std::string& parameter) {
  std::visit(Applier{layer, parameter}, plan);
}

} // namespace argosy::semi_auto
