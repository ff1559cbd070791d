#pragma once

#include <functional>
#include <memory>
#include <vector>

namespace at {
class Tensor;
}

namespace argosy::dtensor {

// What is done to the input and to the output of a layer.
//
// LibTorch's modules have no hooks, so the layer's weight carries them: the op
// that takes it as its weight is the layer. LibTorch brings the ops of such
// weights, and no others, to us above autograd, so that a change may be any
// differentiable function.
struct LayerHooks {
  using Change = std::function<at::Tensor(const at::Tensor&)>;

  std::vector<Change> inputs;  // one after the other
  std::vector<Change> outputs; // of what the layer returns first
  // torch::nn::Linear multiplies by weight.t(), which then stands for the
  // weight. It adds its bias afterwards, out of sight.
  bool is_linear = false;
};

// Gives a DTensor other hooks, for all who hold it; null for none. Throws
// InvalidArgument for a plain tensor, and when the hook `layer_hooks` is
// switched off.
void set_hooks(
    const at::Tensor& dtensor, std::shared_ptr<const LayerHooks> hooks);

} // namespace argosy::dtensor
