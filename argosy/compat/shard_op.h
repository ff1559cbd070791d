#pragma once

#include <functional>
#include <string>
#include <vector>

#include "argosy/compat/slice_strategy.h"

namespace at {
class Tensor;
}
namespace torch::nn {
class Module;
} // namespace torch::nn

namespace argosy {

// Returns a function that reshards its operands as a strategy says and calls
// `op`:
//
//   auto product = shard_op(
//       [](const auto& x) { return torch::matmul(x[0], x[1]); },
//       mesh, {"mk", "kn"}, {{2, 1}, {1, 4}});
//   at::Tensor y = product({a, b});   // [S(0), S(1)]
//
// Plain tensors must be equal on all ranks.
std::function<at::Tensor(const std::vector<at::Tensor>&)> shard_op(
    std::function<at::Tensor(const std::vector<at::Tensor>&)> op,
    const ProcessMesh& mesh,
    const std::vector<std::string>& letters,
    const OpStrategy& strategy);

// The same for a layer. The strategy has the slices of its input (first and
// last dim) and of its weight: for Linear {{b, k}, {n, k}}, for Embedding {{b,
// l}, {v, h}}. The bias follows the weight, which stays sharded in every op.
// Throws InvalidArgument for other layers.
void shard_layer_by(
    torch::nn::Module& layer,
    const ProcessMesh& mesh,
    const OpStrategy& strategy);

} // namespace argosy
