#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

namespace argosy::torch_hooks {

using Tensors = std::vector<at::Tensor>;

// Splits one microbatch's backward through one part into two halves: the
// gradients of inputs, which the previous stage waits for, and the gradients of
// weights, which can run later.
//
// Together they compute what torch::autograd::backward() computes, bit for bit.
// The second half runs the products that yield weight gradients (of linear
// layers and convolutions) and what only those need; in between, their operands
// stay in memory. Ops that compute all their gradients at once, such as norms,
// run in the first half; their weight gradients are accumulated in the second,
// so that parameter hooks run there.
//
// Consumes the graph: nothing else may run backward through it. Recomputed
// layers run forward again once, in the first half.
// again once, in the first half.
class SplitBackward {
 public:
  SplitBackward();
  ~SplitBackward();
  SplitBackward(SplitBackward&& other) noexcept;
  SplitBackward& operator=(SplitBackward&& other) noexcept;

  // First half: returns the gradients of `inputs`, which must be leaves;
  // undefined for inputs that do not require one or that no output depends on.
  // An entry of `gradients` may be undefined. If no input requires a gradient,
  // everything is left to the second half.
  Tensors input(
      const Tensors& outputs, const Tensors& gradients, const Tensors& inputs);

  // Second half: accumulates the gradients of the parameters. Those of several
  // microbatches are added in the order of the calls.
  void weight();

 private:
  class GraphSplit;
  std::unique_ptr<GraphSplit> split_; // between the halves
};

} // namespace argosy::torch_hooks
