#pragma once

#include "argosy/comm/ops.h"
#include "argosy/common/error.h"

// The collectives and messages with a choice of stream. On the CPU the
// calculation stream is the caller's program order, the communication stream a
// worker of the group. With `use_calc_stream` the operation runs in program
// order, and so `sync_op` must be true; without, it runs on the communication
// stream, and `sync_op` says whether the call waits for it. Otherwise as the
// functions of the same name in ops.h.
namespace argosy::stream {

// Returns `sync_op`; throws InvalidArgument if it contradicts the stream.
inline bool checked(bool sync_op, bool use_calc_stream) {
  ARGOSY_CHECK(
      sync_op || !use_calc_stream,
      "[comm.stream] use_calc_stream is for synchronous calls: sync_op is "
      "false");
  return sync_op;
}

inline WorkPtr all_reduce(
    const at::Tensor& tensor,
    ReduceOp op = ReduceOp::SUM,
    const GroupPtr& group = nullptr,
    bool sync_op = true,
    bool use_calc_stream = false) {
  return argosy::all_reduce(
      tensor, op, group, checked(sync_op, use_calc_stream));
}

inline WorkPtr reduce(
    const at::Tensor& tensor,
    int dst = 0,
    ReduceOp op = ReduceOp::SUM,
    const GroupPtr& group = nullptr,
    bool sync_op = true,
    bool use_calc_stream = false) {
  return argosy::reduce(
      tensor, dst, op, group, checked(sync_op, use_calc_stream));
}

inline WorkPtr broadcast(
    const at::Tensor& tensor,
    int src = 0,
    const GroupPtr& group = nullptr,
    bool sync_op = true,
    bool use_calc_stream = false) {
  return argosy::broadcast(
      tensor, src, group, checked(sync_op, use_calc_stream));
}

inline WorkPtr all_gather(
    Tensors& tensor_list,
    const at::Tensor& tensor,
    const GroupPtr& group = nullptr,
    bool sync_op = true,
    bool use_calc_stream = false) {
  return argosy::all_gather(
      tensor_list, tensor, group, checked(sync_op, use_calc_stream));
}

inline WorkPtr all_gather(
    const at::Tensor& out,
    const at::Tensor& tensor,
    const GroupPtr& group = nullptr,
    bool sync_op = true,
    bool use_calc_stream = false) {
  return argosy::all_gather(
      out, tensor, group, checked(sync_op, use_calc_stream));
}

inline WorkPtr gather(
    const at::Tensor& tensor,
    Tensors* gather_list = nullptr,
    int dst = 0,
    const GroupPtr& group = nullptr,
    bool sync_op = true,
    bool use_calc_stream = false) {
  return argosy::gather(
      tensor, gather_list, dst, group, checked(sync_op, use_calc_stream));
}

inline WorkPtr scatter(
    const at::Tensor& tensor,
    const Tensors& tensor_list,
    int src = 0,
    const GroupPtr& group = nullptr,
    bool sync_op = true,
    bool use_calc_stream = false) {
  return argosy::scatter(
      tensor, tensor_list, src, group, checked(sync_op, use_calc_stream));
}

inline WorkPtr scatter(
    const at::Tensor& tensor,
    const at::Tensor& whole,
    int src = 0,
    const GroupPtr& group = nullptr,
    bool sync_op = true,
    bool use_calc_stream = false) {
  return argosy::scatter(
      tensor, whole, src, group, checked(sync_op, use_calc_stream));
}

inline WorkPtr reduce_scatter(
    const at::Tensor& tensor,
    const Tensors& tensor_list,
    ReduceOp op = ReduceOp::SUM,
    const GroupPtr& group = nullptr,
    bool sync_op = true,
    bool use_calc_stream = false) {
  return argosy::reduce_scatter(
      tensor, tensor_list, op, group, checked(sync_op, use_calc_stream));
}

inline WorkPtr reduce_scatter(
    const at::Tensor& out,
    const at::Tensor& tensor,
    ReduceOp op = ReduceOp::SUM,
    const GroupPtr& group = nullptr,
    bool sync_op = true,
    bool use_calc_stream = false) {
  return argosy::reduce_scatter(
      out, tensor, op, group, checked(sync_op, use_calc_stream));
}

inline WorkPtr alltoall(
    const ExchangedLists& lists,
    const GroupPtr& group = nullptr,
    bool sync_op = true,
    bool use_calc_stream = false) {
  return argosy::alltoall(lists, group, checked(sync_op, use_calc_stream));
}

// One tensor each, cut along dim 0 into equal parts.
inline WorkPtr alltoall(
    const at::Tensor& out,
    const at::Tensor& in,
    const GroupPtr& group = nullptr,
    bool sync_op = true,
    bool use_calc_stream = false) {
  return argosy::alltoall_single(
      out, in, {}, group, checked(sync_op, use_calc_stream));
}

inline WorkPtr alltoall_single(
    const at::Tensor& out,
    const at::Tensor& in,
    const RowSplits& splits = {},
    const GroupPtr& group = nullptr,
    bool sync_op = true,
    bool use_calc_stream = false) {
  return argosy::alltoall_single(
      out, in, splits, group, checked(sync_op, use_calc_stream));
}

inline WorkPtr send(
    const at::Tensor& tensor,
    int dst = 0,
    const GroupPtr& group = nullptr,
    bool sync_op = true,
    bool use_calc_stream = false) {
  return argosy::send(tensor, dst, group, checked(sync_op, use_calc_stream));
}

inline WorkPtr recv(
    const at::Tensor& tensor,
    int src = 0,
    const GroupPtr& group = nullptr,
    bool sync_op = true,
    bool use_calc_stream = false) {
  return argosy::recv(tensor, src, group, checked(sync_op, use_calc_stream));
}

} // namespace argosy::stream
