#pragma once

#include <functional>
#include <vector>

namespace at {
class Tensor;
}

// A step of autograd's graph from two functions. Not installed.
namespace argosy::comm {

using TensorsMap =
    std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;
using TensorMap = std::function<at::Tensor(const at::Tensor&)>;

// Runs `forward` without recording it; backward() then runs `backward` on the
// gradients of its results, zeros where there are none. When that runs
// differentiable operations, it can itself be differentiated. No result may be
// an input.
std::vector<at::Tensor> apply(
    const std::vector<at::Tensor>& inputs,
    const TensorsMap& forward,
    TensorsMap backward);
at::Tensor apply(
    const at::Tensor& tensor,
    const TensorMap& forward,
    const TensorMap& backward);

} // namespace argosy::comm
