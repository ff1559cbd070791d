#include "argosy/comm/kernels/lowering.h"

namespace argosy::comm {

namespace {

// Bools are bytes of 0 or 1, so a sum or maximum is an OR, a product or minimum
// an AND.
ReduceOp lower_bool(ReduceOp op) {
  switch (op) {
    case ReduceOp::SUM:
    case ReduceOp::MAX:
      return ReduceOp::BOR;
    case ReduceOp::PROD:
    case ReduceOp::MIN:
      return ReduceOp::BAND;
    default:
      return op;
  }
}

bool is_bitwise(ReduceOp op) {
  return op == ReduceOp::BAND || op == ReduceOp::BOR || op == ReduceOp::BXOR;
}

} // namespace

Lowering lower(ReduceOp op, DType dtype) {
  if (dtype == DType::Bool) {
    return {DType::UInt8, lower_bool(op)};
  }
  if (is_bitwise(op)) {
    return {DType::UInt8, op, static_cast<int>(size_of(dtype))};
  }
  if (is_complex(dtype) && op != ReduceOp::PROD) {
    const bool single = dtype == DType::Complex64;
    return {single ? DType::Float32 : DType::Float64, op, 2};
  }
  if (dtype == DType::Int8 && (op == ReduceOp::SUM || op == ReduceOp::PROD)) {
    return {DType::UInt8, op};
  }
  return {dtype, op};
}

} // namespace argosy::comm
