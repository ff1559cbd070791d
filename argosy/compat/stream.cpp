#include "argosy/compat/stream.h"

#include <ATen/core/Tensor.h>

#include "argosy/common/error.h"

namespace argosy::stream {

namespace {

void check(bool sync_op, bool use_calc_stream) {
  ARGOSY_CHECK(
      sync_op || !use_calc_stream,
      "[comm.stream] use_calc_stream is for synchronous calls: sync_op is "
      "false");
}

} // namespace

WorkPtr all_reduce(
    const at::Tensor& tensor,
    ReduceOp op,
    const GroupPtr& group,
    bool sync_op,
    bool use_calc_stream) {
  check(sync_op, use_calc_stream);
  return argosy::all_reduce(tensor, op, group, sync_op);
}

WorkPtr reduce(
    const at::Tensor& tensor,
    int dst,
    ReduceOp op,
    const GroupPtr& group,
    bool sync_op,
    bool use_calc_stream) {
  check(sync_op, use_calc_stream);
  return argosy::reduce(tensor, dst, op, group, sync_op);
}

WorkPtr broadcast(
    const at::Tensor& tensor,
    int src,
    const GroupPtr& group,
    bool sync_op,
    bool use_calc_stream) {
  check(sync_op, use_calc_stream);
  return argosy::broadcast(tensor, src, group, sync_op);
}

WorkPtr all_gather(
    Tensors& tensor_list,
    const at::Tensor& tensor,
    const GroupPtr& group,
    bool sync_op,
    bool use_calc_stream) {
  check(sync_op, use_calc_stream);
  return argosy::all_gather(tensor_list, tensor, group, sync_op);
}

WorkPtr all_gather(
    const at::Tensor& out,
    const at::Tensor& tensor,
    const GroupPtr& group,
    bool sync_op,
    bool use_calc_stream) {
  check(sync_op, use_calc_stream);
  return argosy::all_gather(out, tensor, group, sync_op);
}

WorkPtr gather(
    const at::Tensor& tensor,
    Tensors* gather_list,
    int dst,
    const GroupPtr& group,
    bool sync_op,
    bool use_calc_stream) {
  check(sync_op, use_calc_stream);
  return argosy::gather(tensor, gather_list, dst, group, sync_op);
}

WorkPtr scatter(
    const at::Tensor& tensor,
    const Tensors& tensor_list,
    int src,
    const GroupPtr& group,
    bool sync_op,
    bool use_calc_stream) {
  check(sync_op, use_calc_stream);
  return argosy::scatter(tensor, tensor_list, src, group, sync_op);
}

WorkPtr scatter(
    const at::Tensor& tensor,
    const at::Tensor& whole,
    int src,
    const GroupPtr& group,
    bool sync_op,
    bool use_calc_stream) {
  check(sync_op, use_calc_stream);
  return argosy::scatter(tensor, whole, src, group, sync_op);
}

WorkPtr reduce_scatter(
    const at::Tensor& tensor,
    const Tensors& tensor_list,
    ReduceOp op,
    const GroupPtr& group,
    bool sync_op,
    bool use_calc_stream) {
  check(sync_op, use_calc_stream);
  return argosy::reduce_scatter(tensor, tensor_list, op, group, sync_op);
}

WorkPtr reduce_scatter(
    const at::Tensor& out,
    const at::Tensor& tensor,
    ReduceOp op,
    const GroupPtr& group,
    bool sync_op,
    bool use_calc_stream) {
  check(sync_op, use_calc_stream);
  return argosy::reduce_scatter(out, tensor, op, group, sync_op);
}

WorkPtr alltoall(
    Tensors& out_list,
    const Tensors& in_list,
    const GroupPtr& group,
    bool sync_op,
    bool use_calc_stream) {
  check(sync_op, use_calc_stream);
  return argosy::alltoall(out_list, in_list, group, sync_op);
}

WorkPtr alltoall(
    const at::Tensor& out,
    const at::Tensor& in,
    const GroupPtr& group,
    bool sync_op,
    bool use_calc_stream) {
  check(sync_op, use_calc_stream);
  return argosy::alltoall_single(out, in, {}, {}, group, sync_op);
}

WorkPtr alltoall_single(
    const at::Tensor& out,
    const at::Tensor& in,
    const std::vector<std::int64_t>& in_split_sizes,
    const std::vector<std::int64_t>& out_split_sizes,
    const GroupPtr& group,
    bool sync_op,
    bool use_calc_stream) {
  check(sync_op, use_calc_stream);
  return argosy::alltoall_single(
      out, in, in_split_sizes, out_split_sizes, group, sync_op);
}

WorkPtr send(
    const at::Tensor& tensor,
    int dst,
    const GroupPtr& group,
    bool sync_op,
    bool use_calc_stream) {
  check(sync_op, use_calc_stream);
  return argosy::send(tensor, dst, group, sync_op);
}

WorkPtr recv(
    const at::Tensor& tensor,
    int src,
    const GroupPtr& group,
    bool sync_op,
    bool use_calc_stream) {
  check(sync_op, use_calc_stream);
  return argosy::recv(tensor, src, group, sync_op);
}

} // namespace argosy::stream
