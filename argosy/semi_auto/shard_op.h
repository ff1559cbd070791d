#pragma once

#include <functional>
#include <string>
#include <vector>

#include "argosy/semi_auto/strategy.h"

namespace at {
class Tensor;
}
namespace torch::nn {
class Module;
} // namespace torch::nn

namespace argosy {

// Brings tensors to where a strategy wants them, and calls `op`:
//
//   auto product = shard_op(
//       [](const auto& x) { return torch::matmul(x[0], x[1]); },
//       mesh, {"mk", "kn"}, {{2, 1}, {1, 4}});
//   at::Tensor y = product({a, b});   // [S(0), S(1)]
//
// Plain tensors are taken as the same on all ranks.
std::function<at::Tensor(const std::vector<at::Tensor>&)> shard_op(
    std::function<at::Tensor(const std::vector<at::Tensor>&)> op,
    const ProcessMesh& mesh,
    const std::vector<std::string>& letters,
    const OpStrategy& strategy);

// The same for a layer: the strategy of its input (of two dims; those between
// are not cut) and of its weight. Of Linear {{b, k}, {n, k}}, of Embedding
// {{b, l}, {v, h}}; the bias follows. The weight then stays where it is.
void shard_layer_by(
    torch::nn::Module& layer,
    const ProcessMesh& mesh,
    const OpStrategy& strategy);

} // namespace argosy
