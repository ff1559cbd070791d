#pragma once

#include <vector>

namespace at {
class Tensor;
}

// Functions on all gradients of a list of parameters, in one pass over their
// memory on torch's threads. They skip parameters without a gradient, and use
// the values of sparse gradients.
namespace argosy::optim {

// The sum of the squares of all elements, in double. It is finite if and only
// if all elements are (for float64: unless a square overflows). If ranks hold
// different parts, add their results before taking the root.
double squared_norm(const std::vector<at::Tensor>& tensors);
double squared_grad_norm(const std::vector<at::Tensor>& params);

// Multiplies all gradients by `factor`, in place.
void scale_grads(const std::vector<at::Tensor>& params, double factor);

// The factor by which torch's clip_grad_norm_ multiplies gradients.
double clip_factor(double norm, double max_norm);

// As torch::nn::utils::clip_grad_norm_ and clip_grad_value_. clip_grad_norm_
// returns the norm before clipping, and does not write gradients whose norm is
// small enough. It throws InvalidArgument if the norm is not finite and
// `error_if_nonfinite` is set.
double clip_grad_norm_(
    const std::vector<at::Tensor>& params,
    double max_norm,
    double norm_type = 2.0,
    bool error_if_nonfinite = false);
void clip_grad_value_(const std::vector<at::Tensor>& params, double clip_value);

} // namespace argosy::optim
