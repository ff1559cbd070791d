#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "argosy/dtensor/layout/dist_attr.h"

// Code that works on this rank's parts, in the midst of code on DTensors: a
// kernel of your own, a loss that counts, an op without a sharding rule.
namespace argosy {

struct LocalMapOptions {
  // Of each result; nullopt leaves it a plain tensor. Parts of a Shard have the
  // same shape on all ranks, unless `out_shapes` says otherwise.
  std::vector<std::optional<Placements>> out_placements;
  // Of each input, where the function wants it; nullopt for a plain tensor,
  // which the function gets as it is. Empty: where the inputs are.
  std::vector<std::optional<Placements>> in_placements = {};
  // Brings inputs that are elsewhere to `in_placements`; they are refused
  // otherwise.
  bool redistribute_inputs = false;
  // Of the gradients that the function's backward gives, one for each input.
  // Empty: those of the input, but on an axis that replicates the input and on
  // which the results are parts, each rank has a part of the gradient: Partial.
  std::vector<std::optional<Placements>> in_grad_placements = {};
  // Global shapes of the results; empty: all parts are equal.
  std::vector<std::vector<std::int64_t>> out_shapes = {};
  // Of the results, if no input is a DTensor. By default the current mesh
  // (set_mesh()).
  std::optional<ProcessMesh> mesh = std::nullopt;
};

// Calls `function` with this rank's parts of `inputs`, and makes DTensors of
// what it returns. Sends nothing but what `redistribute_inputs` needs.
// Differentiable. All ranks of the mesh must call it alike; ranks outside must
// not. Throws InvalidArgument when the inputs are on several meshes or in other
// places, when there are more or fewer results than placements, and when the
// placements of gradients must be said: on an axis that replicates an input,
// some results are parts and others are not.
std::vector<at::Tensor> local_map(
    const std::function<std::vector<at::Tensor>(
        const std::vector<at::Tensor>& locals)>& function,
    const std::vector<at::Tensor>& inputs,
    const LocalMapOptions& options);

// The same for a function with one result.
at::Tensor local_map(
    const std::function<at::Tensor(const std::vector<at::Tensor>& locals)>&
        function,
    const std::vector<at::Tensor>& inputs,
    const LocalMapOptions& options);

// A layer whose forward runs on local parts:
//
//   LocalLayer<Norm> norm(Norm(8), {.out_placements = {Placements{Shard(0)}}});
//   at::Tensor y = norm(x);
//
// The layer's forward takes tensors, and returns a tensor or a vector of them.
template <typename Layer>
class LocalLayer {
 public:
  LocalLayer(Layer layer, LocalMapOptions options)
      : layer_(std::move(layer)), options_(std::move(options)) {}

  template <typename... Inputs>
  auto operator()(const Inputs&... inputs) {
    return call(std::index_sequence_for<Inputs...>(), inputs...);
  }

  Layer& layer() { return layer_; }

 private:
  template <std::size_t... i, typename... Inputs>
  auto call(std::index_sequence<i...>, const Inputs&... inputs) {
    return local_map(
        [this](const std::vector<at::Tensor>& locals) {
          return layer_->forward(locals[i]...);
        },
        {inputs...},
        options_);
  }

  Layer layer_;
  const LocalMapOptions options_;
};

} // namespace argosy
