#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace argosy::torch_hooks {

// Whether the calling thread carries out a backward().
bool is_in_backward();

// Calls `action` at the end of the backward() that the calling thread carries
// out; call it from a hook of that.
void at_end_of_backward(std::function<void()> action);

// A tensor without elements that backward() goes on from as from `output`,
// whose values it does not keep.
at::Tensor without_values(const at::Tensor& output);

// Tells autograd that an op which it has not seen wrote to a tensor.
void bump_version(const at::Tensor& tensor);

} // namespace argosy::torch_hooks
