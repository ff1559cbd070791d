#pragma once

#include <vector>

namespace at {
class Tensor;
}

// All gradients of a list of parameters at once, one pass over their memory on
// torch's threads. Parameters without gradient are skipped; of a sparse
// gradient the values count.
namespace argosy::optim {

// The sum of the squares of all elements, in double. Not finite when, and only
// when, an element is not (for float64: or too large to be squared). Add it up
// over ranks that hold different parts before taking the root.
double squared_norm(const std::vector<at::Tensor>& tensors);
double squared_grad_norm(const std::vector<at::Tensor>& params);

// Multiplies all gradients, in place.
void scale_grads(const std::vector<at::Tensor>& params, double factor);

// What torch's clip_grad_norm_ multiplies gradients by.
double clip_factor(double norm, double max_norm);

// torch::nn::utils::clip_grad_norm_ and clip_grad_value_. The former returns
// the norm before; throws InvalidArgument when that is not finite and
// `error_if_nonfinite`. Gradients within the norm are not written.
double clip_grad_norm_(
    const std::vector<at::Tensor>& params,
    double max_norm,
    double norm_type = 2.0,
    bool error_if_nonfinite = false);
void clip_grad_value_(const std::vector<at::Tensor>& params, double clip_value);

} // namespace argosy::optim
