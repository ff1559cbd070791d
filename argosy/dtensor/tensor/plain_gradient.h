#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include "argosy/torch_hooks/wrapper_tensor.h"

namespace argosy::dtensor {

// Gathers the gradients of a plain tensor, which would otherwise be DTensors,
// as those of what it was combined with are.
void make_gradient_plain(const at::Tensor& tensor);

// A plain tensor beside a DTensor counts as replicated, so its gradient is the
// whole one, as a plain tensor on all ranks. To be called where an op is
// recorded for backward.
inline void record_plain(const at::Tensor& tensor) {
  if (tensor.requires_grad() && !torch_hooks::is_wrapper(tensor) &&
      at::GradMode::is_enabled()) {
    make_gradient_plain(tensor);
  }
}

} // namespace argosy::dtensor
