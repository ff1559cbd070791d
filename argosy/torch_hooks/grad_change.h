#pragma once

namespace at {
class Tensor;
}

namespace argosy::torch_hooks {

using ChangeGradient = at::Tensor(const at::Tensor& gradient);

// Lets `change` replace the gradients that backward() brings to a tensor that
// requires grad, before they are used or added up in grad(). Called again with
// the same function, it does nothing. Two threads must not call it for one
// tensor at once.
void change_gradient(const at::Tensor& tensor, ChangeGradient* change);

} // namespace argosy::torch_hooks
