#pragma once

#include <ATen/core/stack.h>

namespace c10 {
class OperatorHandle;
}

namespace argosy::dtensor {

// What the dispatcher calls for every op that has a DTensor among its
// arguments, below autograd: decides, brings the inputs where they are needed,
// runs the op on this rank's parts, and makes DTensors of the results.
void execute(const c10::OperatorHandle& op, torch::jit::Stack* stack);

} // namespace argosy::dtensor
