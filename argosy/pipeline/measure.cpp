#include "argosy/pipeline/measure.h"

// First: clang 14 wants IValue complete before tensors.
#include <ATen/core/ivalue.h>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones_like.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/observe/tensor_memory.h"
#include "argosy/torch_hooks/graph_walk.h"
#include "argosy/torch_hooks/split_backward.h"

namespace argosy::pipeline {
namespace {

using Layer = std::function<Tensors(const Tensors&)>;

// Takes the gradients away from tensors, and restores them when destroyed.
class WithoutGradients {
 public:
  explicit WithoutGradients(Tensors tensors) : tensors_(std::move(tensors)) {
    for (at::Tensor& each : tensors_) {
      gradients_.push_back(each.grad());
      each.mutable_grad().reset();
    }
  }
  ~WithoutGradients() {
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      tensors_[i].mutable_grad() = gradients_[i];
    }
  }
  WithoutGradients(const WithoutGradients&) = delete;
  WithoutGradients& operator=(const WithoutGradients&) = delete;

 private:
  Tensors tensors_;
  Tensors gradients_;
};

// Lowers `best` to the seconds that `f` takes.
template <typename F>
auto timed(double& best, const F& f) {
  const auto began = std::chrono::steady_clock::now();
  auto result = f();
  const std::chrono::duration<double> passed =
      std::chrono::steady_clock::now() - began;
  best = std::min(best, passed.count());
  return result;
}

// A layer is any function: its parameters are the leaves of its graph that are
// not inputs. A parameter that forward does not use has no cost.
Tensors parameters_of(const Layer& layer, const Tensors& inputs) {
  Tensors leaves = torch_hooks::leaves_of(layer(inputs));
  std::erase_if(leaves, [&](const at::Tensor& leaf) {
    return std::ranges::any_of(
        inputs, [&](const at::Tensor& input) { return input.is_same(leaf); });
  });
  return leaves;
}

Tensors gradients_for(const Tensors& outputs) {
  Tensors gradients;
  for (const at::Tensor& output : outputs) {
    gradients.push_back(
        output.requires_grad() ? at::ones_like(output) : at::Tensor());
  }
  return gradients;
}

// Bytes that stay allocated by what `keep` makes of the results, after the
// results and inputs themselves are gone: the neighbouring layers account for
// those.
template <typename Keep>
std::int64_t kept_bytes(
    const Layer& layer, const Tensors& inputs, const Keep& keep) {
  const TensorMemory memory;
  const std::int64_t before = memory.current();
  Tensors own;
  for (const at::Tensor& input : inputs) {
    own.push_back(input.clone());
  }
  const auto kept = keep(layer(std::exchange(own, {})));
  return memory.current() - before;
}

void measure_memory(
    const Layer& layer, const Tensors& inputs, LayerCost& cost) {
  cost.activation_bytes = kept_bytes(layer, inputs, [](const Tensors& outputs) {
    return torch_hooks::graph_of(outputs);
  });
  cost.bytes_between_halves =
      kept_bytes(layer, inputs, [&](const Tensors& outputs) {
        torch_hooks::SplitBackward backward;
        backward.input(outputs, gradients_for(outputs), inputs);
        return backward;
      });
}

Tensors run_once(const Layer& layer, const Tensors& inputs, LayerCost& best) {
  const Tensors outputs = timed(best.forward, [&] { return layer(inputs); });
  const Tensors gradients = gradients_for(outputs);
  torch_hooks::SplitBackward backward;
  timed(best.backward_input, [&] {
    return backward.input(outputs, gradients, inputs);
  });
  timed(best.backward_weight, [&] {
    backward.weight();
    return true;
  });
  return outputs;
}

// Returns leaves that require gradients where the tensors do.
Tensors detached(const Tensors& tensors) {
  Tensors leaves;
  for (const at::Tensor& each : tensors) {
    leaves.push_back(each.detach().requires_grad_(each.requires_grad()));
  }
  return leaves;
}

} // namespace

std::vector<LayerCost> measure_layers(
    const std::vector<Layer>& layers, const Tensors& inputs, int rounds) {
  ARGOSY_CHECK(
      rounds > 0,
      "[pipeline.measure] {} rounds, expected at least one",
      rounds);
  const at::AutoGradMode with_graph(true);
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<LayerCost> costs;
  Tensors own = detached(inputs);
  for (const Layer& layer : layers) {
    const Tensors parameters = parameters_of(layer, own);
    const WithoutGradients without(parameters);
    // The first run allocates memory and fills caches; its times are dropped.
    LayerCost warm_up;
    LayerCost cost{
        .forward = kNever, .backward_input = kNever, .backward_weight = kNever};
    Tensors outputs = run_once(layer, own, warm_up);
    for (int i = 0; i < rounds; ++i) {
      outputs = run_once(layer, own, cost);
    }
    measure_memory(layer, own, cost);
    for (const at::Tensor& each : parameters) {
      cost.parameter_bytes += static_cast<std::int64_t>(each.nbytes());
    }
    costs.push_back(cost);
    own = detached(outputs);
  }
  return costs;
}

} // namespace argosy::pipeline
