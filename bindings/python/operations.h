#pragma once

#include <torch/csrc/distributed/c10d/Types.hpp>

#include <cstdint>
#include <string_view>
#include <vector>

#include "argosy/comm/op.h"

// Translates c10d's calls to operations of Argosy. Arguments are checked here,
// on the calling thread; all functions throw InvalidArgument. Roots are group
// ranks.
namespace argosy::python {

using Tensors = std::vector<at::Tensor>;
using TensorLists = std::vector<std::vector<at::Tensor>>;

// c10d takes lists, for several devices per process; we support one.
const at::Tensor& only(const Tensors& tensors, std::string_view op);
const Tensors& only(const TensorLists& lists, std::string_view op);

// Rejects tensors that are not on the CPU or have an unsupported dtype.
void check_tensor(const at::Tensor& tensor, std::string_view op);
void check_root(std::int64_t root, int num_ranks, std::string_view op);

// Throws InvalidArgument for PREMUL_SUM.
comm::ReduceOp reduce_op_of(const c10d::ReduceOp& op);

// In place.
comm::Op all_reduce_op(const at::Tensor& tensor, const c10d::ReduceOp& op);
comm::Op reduce_op(
    const at::Tensor& tensor, const c10d::ReduceOp& op, int root);
comm::Op broadcast_op(const at::Tensor& tensor, int root);

// `out` has one tensor per rank.
comm::Op all_gather_op(const Tensors& out, const at::Tensor& in, int num_ranks);
// `out` has space for all ranks.
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
// Rows per rank; empty: equal parts.
comm::Op all_to_all_op(
    const at::Tensor& out,
    const at::Tensor& in,
    const std::vector<std::int64_t>& out_rows,
    const std::vector<std::int64_t>& in_rows,
    int num_ranks);

} // namespace argosy::python
