#include "argosy/parallel/pipeline/split_backward.h"
#include <torch/csrc/autograd/autograd.h>
namespace argosy::pipeline {
Tensors SplitBackward::input(
    const Tensors& o, const Tensors& g, const Tensors& inputs) {
  torch::autograd::backward(o, g);
  Tensors r;
  for (auto& e : inputs) {
    r.push_back(e.grad());
    e.mutable_grad() = at::Tensor();
  }
  return r;
}
} // namespace argosy::pipeline
