#pragma once

#include <vector>

#include "argosy/torch_hooks/graph_node.h"

namespace argosy::torch_hooks {

// The op that call_as_op() runs.
inline constexpr const char* kCallOp = "argosy::call";

// Calls fn(inputs) as an op of the dispatcher, so that hooks of ops see one op,
// whatever the function does. Autograd sees what the function does.
std::vector<at::Tensor> call_as_op(
    const std::vector<at::Tensor>& inputs, TensorsMap fn);

} // namespace argosy::torch_hooks
