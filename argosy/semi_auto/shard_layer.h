#pragma once

#include <functional>
#include <string>
#include <type_traits>
#include <utility>

#include "argosy/dtensor/dtensor.h"

namespace torch::nn {
class Module;
}

namespace argosy {

// Places the parameters of one layer, with shard_tensor_(). `name` is that of
// named_modules(): "" for the outermost.
using ShardFn = std::function<void(
    const std::string& name, torch::nn::Module& layer, const ProcessMesh&)>;

// Makes all parameters and buffers of a module DTensors in place, so that an
// unchanged model trains in parts: `shard_fn` is called for every layer, and
// what it leaves becomes Replicate. All ranks of the mesh must hold the same
// values.
void shard_layer(
    torch::nn::Module& layer,
    const ProcessMesh& mesh,
    const ShardFn& shard_fn = nullptr);

// Changes a tensor on its way into or out of a layer.
using LayerFn =
    std::function<at::Tensor(const at::Tensor&, const ProcessMesh&)>;

// A layer to be called through: `input_fn` changes all tensors that it is
// given, `output_fn` what it returns.
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

} // namespace argosy
