// LibTorch writes some functions, also gradients, as a few ops on new tensors
// that it makes by options only: plain tensors, which cannot hold what comes of
// a DTensor. Here they are made from the DTensor.

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cumprod_backward.h>
#include <ATen/ops/one_hot.h>

#include "argosy/common/error.h"
#include "argosy/dtensor/ops/dims.h"
#include "argosy/dtensor/ops/families.h"
#include "argosy/dtensor/ops/letters.h"
#include "argosy/torch_hooks/wrapper_tensor.h"

namespace argosy::dtensor {

namespace {

// Puts the gradient of a selected element where that was.
at::Tensor selected_backward(
    const at::Tensor& grad,
    std::int64_t dim,
    const at::Tensor& indices,
    at::IntArrayRef sizes,
    bool keepdim) {
  if (keepdim || sizes.empty()) {
    return grad.new_zeros(sizes).scatter(dim, indices, grad);
  }
  return grad.unsqueeze(dim).new_zeros(sizes).scatter(
      dim, indices.unsqueeze(dim), grad.unsqueeze(dim));
}

at::Tensor cummaxmin_backward(
    const at::Tensor& grad,
    const at::Tensor& input,
    const at::Tensor& indices,
    std::int64_t dim) {
  if (input.numel() == 0) {
    return input;
  }
  return grad.new_zeros(input.sizes()).scatter_add(dim, indices, grad);
}

// Runs as one op; its own derivative is not known then.
at::Tensor cumprod_backward(
    const at::Tensor& grad,
    const at::Tensor& input,
    std::int64_t dim,
    const at::Tensor& output) {
  ARGOSY_CHECK(
      !at::GradMode::is_enabled(),
      "[dtensor.cumprod] the second derivative of cumprod is not there for "
      "DTensors");
  const at::AutoDispatchBelowADInplaceOrView below;
  return at::cumprod_backward(grad, input, dim, output);
}

std::vector<Strategy> cumprod_backward_strategies(const OpCall& call) {
  const std::string letters =
      letters_but(call.shape(0).size(), call.integer("dim", 0));
  return by_letters(call, {letters, letters, letters}, {letters});
}

at::Tensor one_hot(const at::Tensor& self, std::int64_t num_classes) {
  const at::AutoDispatchBelowADInplaceOrView below;
  return at::one_hot(self, num_classes);
}

// Without a number of classes the largest index says it.
std::vector<Strategy> one_hot_strategies(const OpCall& call) {
  const std::string letters = first_letters(call.shape(0).size());
  return by_letters(call, {letters}, {letters + "-"});
}

std::vector<Shape> one_hot_shape(const OpCall& call) {
  const std::int64_t classes = call.integer("num_classes", -1);
  if (classes < 0) {
    return {};
  }
  Shape shape = call.shape(0);
  shape.push_back(classes);
  return {shape};
}

} // namespace

void add_composite_rules(RuleTable& table) {
  table.add(
      "cumprod_backward",
      {.strategies = cumprod_backward_strategies, .shapes = shape_of_first});
  table.add(
      "one_hot", {.strategies = one_hot_strategies, .shapes = one_hot_shape});
}

void add_composite_kernels(torch_hooks::WrapperKernels& kernels) {
  kernels.below.impl("one_hot", kernels.execute());
  kernels.autograd.impl("one_hot", &one_hot);
  kernels.below.impl("cumprod_backward", kernels.execute());
  kernels.autograd.impl("cumprod_backward", &cumprod_backward);
  for (torch::Library* library : {&kernels.below, &kernels.autograd}) {
    library->impl("value_selecting_reduction_backward", &selected_backward);
    library->impl("cummaxmin_backward", &cummaxmin_backward);
  }
}

} // namespace argosy::dtensor
