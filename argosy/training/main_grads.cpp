#include "argosy/training/main_grads.h"

#include <ATen/core/grad_mode.h>

#include "argosy/torch_hooks/grad_hook.h"

namespace argosy::training {

c10::ScalarType grad_type(c10::ScalarType param, bool main_grad) {
  const bool is_short = param == c10::kBFloat16 || param == c10::kHalf;
  return main_grad && is_short ? c10::kFloat : param;
}

void widen_grad(const at::Tensor& leaf) {
  at::Tensor& gradient = leaf.mutable_grad();
  if (gradient.defined() && !gradient.is_sparse()) {
    const at::NoGradGuard no_grad;
    gradient = gradient.to(grad_type(gradient.scalar_type(), true));
  }
}

MainGrads::MainGrads(const std::vector<at::Tensor>& params) {
  for (const at::Tensor& param : params) {
    const auto type = param.scalar_type();
    if (param.requires_grad() && grad_type(type, true) != type) {
      // Without buckets, the hook replaces the gradient after autograd has
      // accumulated it; later passes then add to a float32 tensor.
      hooks_.emplace_back(param, [param] { widen_grad(param); });
    }
  }
}

MainGrads::~MainGrads() = default;

} // namespace argosy::training
