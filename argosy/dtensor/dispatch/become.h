#pragma once

#include <ATen/core/stack.h>

namespace argosy::torch_hooks {
struct OpInfo;
}

// Where an existing tensor becomes another one for all who hold it.
namespace argosy::dtensor {

using torch_hooks::OpInfo;

// LibTorch's formulas of backward make plain tensors and write to them what
// comes of a gradient. When that is a DTensor, such a new tensor, which nobody
// else has, becomes a replicated one.
void adopt_new_tensors(
    const OpInfo& info, c10::ArrayRef<c10::IValue> arguments);

// Runs an op that changes the shape of a DTensor in place as the one that
// returns a view. Of set_(), by which torch::load() gives a tensor what it has
// read, takes the values. Throws InvalidArgument for ops that have no view, and
// for values of another shape.
void change_shape(const OpInfo& info, torch::jit::Stack& stack);

} // namespace argosy::dtensor
