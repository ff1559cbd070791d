#pragma once

#include "argosy/comm/kernels/dtype.h"
#include "argosy/comm/kernels/reduce_op.h"

namespace argosy::comm {

// The kernel that implements a pair. Many pairs share one: bit operations work
// on bytes, sums of complex numbers are sums of their parts, signed sums wrap
// as unsigned ones do, and Bools are bytes.
struct Lowering {
  DType dtype;
  ReduceOp op;
  int lanes = 1; // per element of the pair

  bool operator==(const Lowering&) const = default;
};

// The pair must be supported.
Lowering lower(ReduceOp op, DType dtype);

} // namespace argosy::comm
