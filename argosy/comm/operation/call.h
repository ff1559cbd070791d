#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "argosy/comm/kernels/dtype.h"
#include "argosy/comm/kernels/reduce_op.h"
#include "argosy/comm/operation/label.h"
#include "argosy/comm/operation/op_kind.h"

namespace argosy::comm {

// The input or output tensors of an operation. Of a list, the dims of the first
// tensor.
struct Side {
  static constexpr std::size_t kMostDims = 6; // further ones are not kept

  std::uint32_t num_tensors = 0;
  std::uint32_t num_dims = 0; // as many as the tensor has
  std::int64_t elements = 0;  // of all tensors
  std::array<std::int64_t, kMostDims> dims{};

  std::span<const std::int64_t> kept_dims() const;

  bool operator==(const Side&) const = default;
};

// "[3, 4]", "8 x [3]", "nothing".
std::string to_string(const Side& side);

// An operation as a rank issues it to a group. Fused operations are one call,
// with the tensors of all.
struct Call {
  OpKind kind = OpKind::Barrier;
  DType dtype = DType::Float32;
  ReduceOp reduce = ReduceOp::SUM;
  int root = -1; // global rank; of send and recv, the peer
  Side in;
  Side out;
  std::int64_t bytes = 0; // of the larger side
  OpLabel label{};        // need not be the same on all ranks

  bool operator==(const Call&) const = default;
};

// "all_reduce of float32 [3, 4], sum, for "gradients, bucket 0 (fc.weight)""
std::string to_string(const Call& call);

// Whether two members may make these calls as the same collective; or, of a
// send and a recv, as the two ends of a message.
bool agree(const Call& a, const Call& b);

} // namespace argosy::comm
