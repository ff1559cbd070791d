#include "argosy/torch_hooks/op_info.h"

#include <ATen/core/dispatch/Dispatcher.h>

namespace argosy::torch_hooks {

namespace {

using ArgKind = OpInfo::ArgKind;

c10::TypePtr without_optional(const c10::TypePtr& type) {
  const auto optional = type->cast<c10::OptionalType>();
  return optional ? optional->getElementType() : type;
}

bool is_tensor(const c10::TypePtr& type) {
  return without_optional(type)->kind() == c10::TypeKind::TensorType;
}

// Floats and Scalars are Other: they enter the values of the results, not their
// shapes. Lists of integers and bools are Keys as their elements are.
ArgKind kind_of(const c10::TypePtr& declared) {
  const c10::TypePtr type = without_optional(declared);
  if (is_tensor(type)) {
    return ArgKind::Tensor;
  }
  if (const auto list = type->cast<c10::ListType>()) {
    if (list->getElementType()->kind() == c10::TypeKind::FloatType) {
      return ArgKind::Key; // scales, on which shapes depend
    }
    return is_tensor(list->getElementType()) ? ArgKind::Tensors
                                             : kind_of(list->getElementType());
  }
  switch (type->kind()) {
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
    case c10::TypeKind::BoolType:
    case c10::TypeKind::StringType:
      return ArgKind::Key;
    default:
      return ArgKind::Other;
  }
}

// The argument that a result is, by the set of their alias annotations.
int written_by(const c10::FunctionSchema& schema, const c10::Argument& result) {
  for (std::size_t i = 0; i < schema.arguments().size(); ++i) {
    const auto* alias = schema.arguments()[i].alias_info();
    if (alias != nullptr && alias->isWrite() &&
        alias->beforeSets() == result.alias_info()->beforeSets()) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

} // namespace

OpInfo read_schema(const c10::OperatorHandle& op) {
  const c10::FunctionSchema& schema = op.schema();
  OpInfo info;
  info.name = c10::toString(op.operator_name());
  for (const c10::Argument& arg : schema.arguments()) {
    const bool written =
        arg.alias_info() != nullptr && arg.alias_info()->isWrite();
    info.args.push_back(
        {kind_of(arg.type()), written, written && arg.is_out(), arg.name()});
    info.writes |= written;
  }
  for (const c10::Argument& result : schema.returns()) {
    const auto* alias = result.alias_info();
    info.returns.push_back(
        {kind_of(result.type()),
         alias != nullptr && alias->isWrite() ? written_by(schema, result) : -1,
         alias != nullptr && !alias->isWrite()});
    info.makes_views |= info.returns.back().is_view;
  }
  info.is_backward = info.name.find("backward") != std::string::npos;
  info.is_random = op.hasTag(at::Tag::nondeterministic_seeded);
  info.changes_shape = op.hasTag(at::Tag::inplace_view);
  return info;
}

const OpInfo& op_info(const c10::OperatorHandle& op) {
  return known_by_op(op, &read_schema);
}

} // namespace argosy::torch_hooks
