#pragma once

#include "argosy/comm/ops.h"

// The collectives and messages with a choice of stream. On the CPU the
// calculation stream is the caller's program order, the communication stream a
// worker of the group. With `use_calc_stream` the operation runs in program
// order, and so `sync_op` must be true; without, it runs on the communication
// stream, and `sync_op` says whether the call waits for it. Otherwise as the
// functions of the same name in ops.h.
namespace argosy::stream {

WorkPtr all_reduce(
    const at::Tensor& tensor,
    ReduceOp op = ReduceOp::SUM,
    const GroupPtr& group = nullptr,
    bool sync_op = true,
    bool use_calc_stream = false);

WorkPtr reduce(
    const at::Tensor& tensor,
    int dst = 0,
    ReduceOp op = ReduceOp::SUM,
    const GroupPtr& group = nullptr,
    bool sync_op = true,
    bool use_calc_stream = false);

WorkPtr broadcast(
    const at::Tensor& tensor,
    int src = 0,
    const GroupPtr& group = nullptr,
    bool sync_op = true,
    bool use_calc_stream = false);

WorkPtr all_gather(
    Tensors& tensor_list,
    const at::Tensor& tensor,
    const GroupPtr& group = nullptr,
    bool sync_op = true,
    bool use_calc_stream = false);

WorkPtr all_gather(
    const at::Tensor& out,
    const at::Tensor& tensor,
    const GroupPtr& group = nullptr,
    bool sync_op = true,
    bool use_calc_stream = false);

WorkPtr gather(
    const at::Tensor& tensor,
    Tensors* gather_list = nullptr,
    int dst = 0,
    const GroupPtr& group = nullptr,
    bool sync_op = true,
    bool use_calc_stream = false);

WorkPtr scatter(
    const at::Tensor& tensor,
    const Tensors& tensor_list,
    int src = 0,
    const GroupPtr& group = nullptr,
    bool sync_op = true,
    bool use_calc_stream = false);

WorkPtr scatter(
    const at::Tensor& tensor,
    const at::Tensor& whole,
    int src = 0,
    const GroupPtr& group = nullptr,
    bool sync_op = true,
    bool use_calc_stream = false);

WorkPtr reduce_scatter(
    const at::Tensor& tensor,
    const Tensors& tensor_list,
    ReduceOp op = ReduceOp::SUM,
    const GroupPtr& group = nullptr,
    bool sync_op = true,
    bool use_calc_stream = false);

WorkPtr reduce_scatter(
    const at::Tensor& out,
    const at::Tensor& tensor,
    ReduceOp op = ReduceOp::SUM,
    const GroupPtr& group = nullptr,
    bool sync_op = true,
    bool use_calc_stream = false);

WorkPtr alltoall(
    Tensors& out_list,
    const Tensors& in_list,
    const GroupPtr& group = nullptr,
    bool sync_op = true,
    bool use_calc_stream = false);

// One tensor each, cut along dim 0 into equal parts.
WorkPtr alltoall(
    const at::Tensor& out,
    const at::Tensor& in,
    const GroupPtr& group = nullptr,
    bool sync_op = true,
    bool use_calc_stream = false);

WorkPtr alltoall_single(
    const at::Tensor& out,
    const at::Tensor& in,
    const std::vector<std::int64_t>& in_split_sizes = {},
    const std::vector<std::int64_t>& out_split_sizes = {},
    const GroupPtr& group = nullptr,
    bool sync_op = true,
    bool use_calc_stream = false);

WorkPtr send(
    const at::Tensor& tensor,
    int dst = 0,
    const GroupPtr& group = nullptr,
    bool sync_op = true,
    bool use_calc_stream = false);

WorkPtr recv(
    const at::Tensor& tensor,
    int src = 0,
    const GroupPtr& group = nullptr,
    bool sync_op = true,
    bool use_calc_stream = false);

} // namespace argosy::stream
