#pragma once

#include <ATen/core/ivalue.h>

#include <vector>

#include "argosy/dtensor/tensor/decision_cache.h"

namespace c10 {
class OperatorHandle;
}

namespace argosy::torch_hooks {
struct OpInfo;
}

namespace argosy::dtensor {

using torch_hooks::OpInfo;

// What an op returns for these (global) arguments, found by running it on meta
// tensors, which have shapes only: for each value that it returns the tensors
// there. Empty when LibTorch has no meta kernel for it.
std::vector<std::vector<Expected>> expected_outputs(
    const c10::OperatorHandle& op,
    const OpInfo& info,
    const c10::IValue* arguments);

} // namespace argosy::dtensor
