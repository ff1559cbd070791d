#include "argosy/comm/kernels/lowering.h"

namespace argosy::comm {

namespace {

ReduceOp lower_bool(ReduceOp op) {
  switch (op) {
    case ReduceOp::Sum:
    case ReduceOp::Max:
      return ReduceOp::BitOr;
    case ReduceOp::Prod:
    case ReduceOp::Min:
      return ReduceOp::BitAnd;
    default:
      return op;
  }
}

bool is_bitwise(ReduceOp op) {
  return op == ReduceOp::BitAnd || op == ReduceOp::BitOr ||
      op == ReduceOp::BitXor;
}

} // namespace

Lowering lower(ReduceOp op, DType dtype) {
  if (dtype == DType::Bool) {
    return {DType::UInt8, lower_bool(op)};
  }
  if (is_bitwise(op)) {
    return {DType::UInt8, op, static_cast<int>(size_of(dtype))};
  }
  if (is_complex(dtype) && op != ReduceOp::Prod) {
    const bool single = dtype == DType::Complex64;
    return {single ? DType::Float32 : DType::Float64, op, 2};
  }
  if (dtype == DType::Int8 && (op == ReduceOp::Sum || op == ReduceOp::Prod)) {
    return {DType::UInt8, op};
  }
  return {dtype, op};
}

} // namespace argosy::comm
