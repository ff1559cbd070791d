#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>

#include "argosy/torch_hooks/split_backward.h"
#include "tests/support/numbers.h"

// Backward in two halves against backward as a whole.
namespace argosy::pipeline {

using torch_hooks::SplitBackward;
using Tensors = std::vector<at::Tensor>;

// A part of a model: what it computes, from which parameters, and for example
// from what. Gradients go to all inputs that are floating point.
struct Part {
  std::function<Tensors(const Tensors&)> forward;
  Tensors parameters;
  Tensors inputs;
};

inline at::Tensor floats(at::IntArrayRef shape, long seed) {
  return testing::numbers(shape, seed).to(torch::kFloat);
}

// One that a random generator gives; all results depend on the order of sums.
inline at::Tensor parameter(at::IntArrayRef shape, long seed) {
  return (floats(shape, seed) / 2).requires_grad_();
}

// Inputs and outputs of one microbatch, and the gradients of the outputs.
struct Microbatch {
  Tensors inputs;
  Tensors outputs;
  Tensors gradients;
};

inline Microbatch forward(const Part& part, long seed) {
  torch::manual_seed(seed);
  Microbatch microbatch;
  for (const at::Tensor& input : part.inputs) {
    at::Tensor own = input.clone();
    if (own.is_floating_point()) {
      own.mul_(1 + 0.1 * seed).requires_grad_();
    }
    microbatch.inputs.push_back(own);
  }
  microbatch.outputs = part.forward(microbatch.inputs);
  for (const at::Tensor& output : microbatch.outputs) {
    microbatch.gradients.push_back(
        output.requires_grad()
            ? floats(output.sizes(), 100 + seed).to(output.dtype())
            : at::Tensor());
  }
  return microbatch;
}

inline void forget_gradients(const Part& part) {
  for (const at::Tensor& each : part.parameters) {
    each.mutable_grad().reset();
  }
}

inline Tensors gradients_of(const Tensors& tensors) {
  Tensors all;
  for (const at::Tensor& each : tensors) {
    all.push_back(each.grad().defined() ? each.grad().clone() : at::Tensor());
  }
  return all;
}

inline void whole_backward(const Microbatch& microbatch) {
  Tensors outputs;
  Tensors gradients;
  for (std::size_t i = 0; i < microbatch.outputs.size(); ++i) {
    if (microbatch.gradients[i].defined()) {
      outputs.push_back(microbatch.outputs[i]);
      gradients.push_back(microbatch.gradients[i]);
    }
  }
  torch::autograd::backward(outputs, gradients);
}

inline void expect_equal(const Tensors& got, const Tensors& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    SCOPED_TRACE(i);
    ASSERT_EQ(got[i].defined(), expected[i].defined());
    EXPECT_TRUE(!got[i].defined() || torch::equal(got[i], expected[i]))
        << got[i] << expected[i];
  }
}

// Three microbatches, whose first halves come one after the other, and the
// second ones in another order, which is that of the sums.
inline void expect_as_whole(const Part& part) {
  const std::vector<long> order{2, 0, 1};
  forget_gradients(part);
  std::vector<Tensors> expected(3);
  for (const long i : order) {
    const Microbatch microbatch = forward(part, i);
    whole_backward(microbatch);
    expected[i] = gradients_of(microbatch.inputs);
  }
  const Tensors expected_parameters = gradients_of(part.parameters);
  forget_gradients(part);
  std::vector<SplitBackward> halves(3);
  for (long i = 0; i < 3; ++i) {
    const Microbatch microbatch = forward(part, i);
    expect_equal(
        halves[i].input(
            microbatch.outputs, microbatch.gradients, microbatch.inputs),
        expected[i]);
    expect_equal(
        gradients_of(part.parameters), Tensors(part.parameters.size()));
  }
  for (const long i : order) {
    halves[i].weight();
  }
  expect_equal(gradients_of(part.parameters), expected_parameters);
}

// A part that is a module from one tensor to one.
template <typename Module>
Part part_of(Module module, at::Tensor input) {
  return {
      [module](const Tensors& in) mutable {
        return Tensors{module->forward(in[0])};
      },
      module->parameters(),
      {std::move(input)}};
}

} // namespace argosy::pipeline
