#include "argosy/dtensor/dispatch/ruled_op.h"

#include "argosy/dtensor/ops/families.h"

namespace argosy::dtensor {

namespace {

RuledOp read_ruled_op(const c10::OperatorHandle& op) {
  RuledOp ruled{torch_hooks::read_schema(op)};
  ruled.rule = find_rule(ruled.name);
  // LibTorch does not say so of set_().
  ruled.changes_shape = ruled.changes_shape || ruled.name == "aten::set_" ||
      ruled.name.starts_with("aten::set_.");
  return ruled;
}

} // namespace

const RuledOp& ruled_op(const c10::OperatorHandle& op) {
  return torch_hooks::known_by_op(op, &read_ruled_op);
}

} // namespace argosy::dtensor
