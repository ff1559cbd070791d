#pragma once

#include "argosy/dtensor/ops/rule.h"
#include "argosy/torch_hooks/op_info.h"

namespace argosy::dtensor {

// An op and the rule for DTensors.
struct RuledOp : OpInfo {
  const Rule* rule = nullptr; // null: it has none
};

// The same object for the same op, for as long as the process lives.
const RuledOp& ruled_op(const c10::OperatorHandle& op);

} // namespace argosy::dtensor
