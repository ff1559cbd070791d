#include "argosy/comm/kernels/reduce_op.h"

#include "argosy/common/error.h"

namespace argosy::comm {

namespace {

constexpr std::string_view kReduceOpNames[kNumReduceOps] = {
    "sum", "max", "min", "prod", "avg", "bit_and", "bit_or", "bit_xor"};

} // namespace

std::string_view to_string(ReduceOp op) {
  const auto index = static_cast<int>(op);
  ARGOSY_CHECK(
      index < kNumReduceOps,
      "[comm.reduce_op] {} is not a value of ReduceOp",
      index);
  return kReduceOpNames[index];
}

bool is_supported(ReduceOp op, DType dtype) {
  switch (op) {
    case ReduceOp::SUM:
    case ReduceOp::PROD:
      return true;
    case ReduceOp::MAX:
    case ReduceOp::MIN:
      return !is_complex(dtype);
    case ReduceOp::AVG:
      return dtype != DType::Bool;
    case ReduceOp::BAND:
    case ReduceOp::BOR:
    case ReduceOp::BXOR:
      return is_integer(dtype) || dtype == DType::Bool;
  }
  return false;
}

void check_supported(ReduceOp op, DType dtype) {
  ARGOSY_CHECK(
      is_supported(op, dtype),
      "[comm.reduce] {} of {} is not defined",
      to_string(op),
      to_string(dtype));
}

} // namespace argosy::comm
