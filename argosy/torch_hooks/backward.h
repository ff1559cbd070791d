#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace argosy::torch_hooks {

// Whether the calling thread carries out a backward().
bool is_in_backward();

// Call it inside of backward, from a hook. Calls `on_end` on this thread when
// that backward has ended; what it throws comes out of backward(). If backward
// or `on_end` throws, calls `on_failure` instead, before the exception reaches
// the caller of backward(); `on_failure` must not throw.
void at_end_of_backward(
    std::function<void()> on_end, std::function<void()> on_failure);

// A tensor without elements that backward() goes on from as from `output`,
// whose values it does not keep.
at::Tensor without_values(const at::Tensor& output);

// Tells autograd that an op which it has not seen wrote to a tensor.
void bump_version(const at::Tensor& tensor);

} // namespace argosy::torch_hooks
