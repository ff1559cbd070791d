#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

namespace argosy::pipeline {

using Tensors = std::vector<at::Tensor>;

// One microbatch's backward through one part, in two halves: for what the part
// before waits for, and for the weights, for which nobody waits.
//
// Together they do what torch::autograd::backward() does, bit for bit. Put off
// are the products that make gradients of weights (of linear layers and
// convolutions) and all that only those need; in between stay the inputs of
// these products and the gradients of their results. Gradients that an op
// computes all at once, as those of a norm, are computed in the first half and
// only added up in the second, so that hooks of parameters are called there.
//
// The graph is used up: nobody else may go through it. Recomputed layers run
// again once, in the first half.
class SplitBackward {
 public:
  SplitBackward();
  ~SplitBackward();
  SplitBackward(SplitBackward&& other) noexcept;
  SplitBackward& operator=(SplitBackward&& other) noexcept;

  // The gradients of `inputs`, which are leaves; undefined for those which do
  // not require one or on which no output depends. An output without a gradient
  // has an undefined one. Where no input requires a gradient, all is put off.
  Tensors input(
      const Tensors& outputs, const Tensors& gradients, const Tensors& inputs);

  // What was put off: adds to the gradients of the parameters. Those of several
  // microbatches add up in the order of these calls.
  void weight();

 private:
  class PutOff;
  std::unique_ptr<PutOff> put_off_; // between the halves
};

} // namespace argosy::pipeline
