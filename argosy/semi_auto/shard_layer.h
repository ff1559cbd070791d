#pragma once

#include <functional>
#include <string>
#include <type_traits>
#include <utility>

#include "argosy/dtensor/dtensor.h"
#include "argosy/mesh/rank_mesh.h"

namespace torch::nn {
class Module;
}

namespace argosy {

// Shards the parameters of one layer with shard_tensor_(). `name` is the name
// in named_modules(), "" for the outermost module.
using ShardFn = std::function<void(
    const std::string& name, torch::nn::Module& layer, const ProcessMesh&)>;

// Turns all parameters and buffers of a module into DTensors, in place, so that
// the unchanged model trains sharded: calls `shard_fn` for every layer, then
// makes Replicate what it left. All ranks of the mesh call it alike, with equal
// values. Throws InvalidArgument when a parameter is on another mesh.
void shard_layer(
    torch::nn::Module& layer,
    const ProcessMesh& mesh,
    const ShardFn& shard_fn = nullptr);
// The same on the current mesh (set_mesh()).
void shard_layer(torch::nn::Module& layer, const ShardFn& shard_fn = nullptr);

namespace semi_auto {

// Throws InvalidArgument on all ranks of the mesh when parameters or buffers
// that are no DTensors yet differ on them; `function` begins the message.
// Collective. Does nothing when dtensor_check_values(0) says so.
void check_initial_values(
    const torch::nn::Module& model,
    const ProcessMesh& mesh,
    const char* function);

} // namespace semi_auto

// Changes a tensor that enters or leaves a layer.
using LayerFn =
    std::function<at::Tensor(const at::Tensor&, const ProcessMesh&)>;

// A layer with functions around it: `input_fn` applies to every tensor
// argument, `output_fn` to the result.
template <typename Layer>
class ShardedLayer {
 public:
  ShardedLayer(
      Layer layer, ProcessMesh mesh, LayerFn input_fn, LayerFn output_fn)
      : layer_(std::move(layer)),
        mesh_(std::move(mesh)),
        input_fn_(std::move(input_fn)),
        output_fn_(std::move(output_fn)) {}

  template <typename... Arguments>
  auto operator()(Arguments&&... arguments) {
    return change(
        layer_->forward(
            change(std::forward<Arguments>(arguments), input_fn_)...),
        output_fn_);
  }

  Layer& layer() { return layer_; }

 private:
  template <typename T>
  decltype(auto) change(T&& value, const LayerFn& fn) const {
    if constexpr (std::is_same_v<std::decay_t<T>, at::Tensor>) {
      return fn == nullptr ? at::Tensor(std::forward<T>(value))
                           : fn(value, mesh_);
    } else {
      return std::forward<T>(value);
    }
  }

  Layer layer_;
  const ProcessMesh mesh_;
  const LayerFn input_fn_;
  const LayerFn output_fn_;
};

// Shards a layer and wraps it as a ShardedLayer.
template <typename Layer>
ShardedLayer<Layer> shard_layer(
    Layer layer,
    const ProcessMesh& mesh,
    const ShardFn& shard_fn,
    LayerFn input_fn,
    LayerFn output_fn = nullptr) {
  shard_layer(*layer, mesh, shard_fn);
  return {std::move(layer), mesh, std::move(input_fn), std::move(output_fn)};
}
// The same on the current mesh (set_mesh()).
template <typename Layer>
ShardedLayer<Layer> shard_layer(
    Layer layer,
    const ShardFn& shard_fn,
    LayerFn input_fn,
    LayerFn output_fn = nullptr) {
  return shard_layer(
      std::move(layer),
      require_mesh("shard_layer"),
      shard_fn,
      std::move(input_fn),
      std::move(output_fn));
}

} // namespace argosy
