#pragma once

#include <functional>
#include <vector>

namespace at {
class Tensor;
}

// A node of autograd's graph made of two functions.
namespace argosy::torch_hooks {

using TensorsMap =
    std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;
using TensorMap = std::function<at::Tensor(const at::Tensor&)>;

// Runs `forward` without recording its ops. backward() then calls `backward`
// with the gradients of the results, and with zeros for those that have none.
// If `backward` runs differentiable ops, it can itself be differentiated.
// `forward` must not return one of its inputs.
std::vector<at::Tensor> apply(
    const std::vector<at::Tensor>& inputs,
    const TensorsMap& forward,
    TensorsMap backward);
at::Tensor apply(
    const at::Tensor& tensor,
    const TensorMap& forward,
    const TensorMap& backward);

} // namespace argosy::torch_hooks
