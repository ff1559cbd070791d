#pragma once

#include <torch/csrc/distributed/c10d/Types.hpp>

#include <cstdint>
#include <string_view>
#include <vector>

#include "argosy/comm/op.h"

// The calls of c10d as operations of Argosy. Arguments are checked here, on the
// thread that calls; all throw InvalidArgument. Roots are ranks of the group.
namespace argosy::python {

using Tensors = std::vector<at::Tensor>;
using TensorLists = std::vector<std::vector<at::Tensor>>;

// c10d takes lists for the sake of several devices in one process. We have one.
const at::Tensor& only(const Tensors& tensors, std::string_view op);
const Tensors& only(const TensorLists& lists, std::string_view op);

// Refuses what is not on the CPU or of a type that is not carried.
void check_tensor(const at::Tensor& tensor, std::string_view op);
void check_root(std::int64_t root, int num_ranks, std::string_view op);

// Throws for PREMUL_SUM.
comm::ReduceOp reduce_op_of(const c10d::ReduceOp& op);

// In place.
comm::Op all_reduce_op(const at::Tensor& tensor, const c10d::ReduceOp& op);
comm::Op reduce_op(
    const at::Tensor& tensor, const c10d::ReduceOp& op, int root);
comm::Op broadcast_op(const at::Tensor& tensor, int root);

// `out` has a tensor for each rank.
comm::Op all_gather_op(const Tensors& out, const at::Tensor& in, int num_ranks);
// `out` has place for all ranks.
comm::Op all_gather_op(
    const at::Tensor& out, const at::Tensor& in, int num_ranks);
comm::Op reduce_scatter_op(
    const at::Tensor& out,
    const Tensors& in,
    const c10d::ReduceOp& op,
    int num_ranks);
comm::Op reduce_scatter_op(
    const at::Tensor& out,
    const at::Tensor& in,
    const c10d::ReduceOp& op,
    int num_ranks);

// `out` is null except on the root.
comm::Op gather_op(
    const Tensors* out, const at::Tensor& in, int root, int num_ranks);
// `in` is null except on the root.
comm::Op scatter_op(
    const at::Tensor& out, const Tensors* in, int root, int num_ranks);

comm::Op all_to_all_op(const Tensors& out, const Tensors& in, int num_ranks);
// Rows for each rank; none given: equal parts.
comm::Op all_to_all_op(
    const at::Tensor& out,
    const at::Tensor& in,
    const std::vector<std::int64_t>& out_rows,
    const std::vector<std::int64_t>& in_rows,
    int num_ranks);

} // namespace argosy::python
