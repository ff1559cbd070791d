#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "argosy/comm/group.h"
#include "argosy/comm/kernels/reduce_op.h"
#include "argosy/comm/work.h"

namespace at {
class Tensor;
}

// Collectives and messages on tensors, named as in paddle.distributed. Outputs
// come first. A null `group` is the group of all ranks.
//
// All members must call the same operation, with tensors of the same shapes and
// types; if they disagree, all of them throw InvalidArgument. With `sync_op`,
// the call blocks until this rank's part is done. Without it, the call returns
// at once with a Work to wait for; keep the tensors alive and untouched until
// then. Roots, sources and destinations are global ranks. Throws
// InvalidArgument on ranks outside the group, TimeoutError after the group's
// time-out, and PeerLost if a member is gone.
namespace argosy {

using ReduceOp = comm::ReduceOp;
using GroupPtr = std::shared_ptr<Group>;
using WorkPtr = std::shared_ptr<Work>;
using Tensors = std::vector<at::Tensor>;

// In place.
WorkPtr all_reduce(
    const at::Tensor& tensor,
    ReduceOp op = ReduceOp::SUM,
    const GroupPtr& group = nullptr,
    bool sync_op = true);

// In place on `dst`; the tensors of other ranks do not change.
WorkPtr reduce(
    const at::Tensor& tensor,
    int dst = 0,
    ReduceOp op = ReduceOp::SUM,
    const GroupPtr& group = nullptr,
    bool sync_op = true);

WorkPtr broadcast(
    const at::Tensor& tensor,
    int src = 0,
    const GroupPtr& group = nullptr,
    bool sync_op = true);

// Fills the list with the tensors of all ranks; an empty list gets new tensors.
WorkPtr all_gather(
    Tensors& tensor_list,
    const at::Tensor& tensor,
    const GroupPtr& group = nullptr,
    bool sync_op = true);

// Fills `out` with the elements of all ranks, in rank order.
WorkPtr all_gather(
    const at::Tensor& out,
    const at::Tensor& tensor,
    const GroupPtr& group = nullptr,
    bool sync_op = true);

// On `dst`, fills the list with the tensors of all ranks; an empty list gets
// new tensors. Other ranks pass no list.
WorkPtr gather(
    const at::Tensor& tensor,
    Tensors* gather_list = nullptr,
    int dst = 0,
    const GroupPtr& group = nullptr,
    bool sync_op = true);

// Fills `tensor` with this rank's entry of the list of `src`.
WorkPtr scatter(
    const at::Tensor& tensor,
    const Tensors& tensor_list = {},
    int src = 0,
    const GroupPtr& group = nullptr,
    bool sync_op = true);

// The same for one tensor of `src`, cut along dim 0 into equal parts; ranks
// other than `src` may pass any tensor.
WorkPtr scatter(
    const at::Tensor& tensor,
    const at::Tensor& whole,
    int src = 0,
    const GroupPtr& group = nullptr,
    bool sync_op = true);

// Fills `tensor` with the reduction of all ranks' entries for this rank.
WorkPtr reduce_scatter(
    const at::Tensor& tensor,
    const Tensors& tensor_list,
    ReduceOp op = ReduceOp::SUM,
    const GroupPtr& group = nullptr,
    bool sync_op = true);

// The same for one tensor with a part for each rank, in rank order.
WorkPtr reduce_scatter(
    const at::Tensor& out,
    const at::Tensor& tensor,
    ReduceOp op = ReduceOp::SUM,
    const GroupPtr& group = nullptr,
    bool sync_op = true);

// What alltoall() exchanges. Named, because both are lists of the same type.
struct ExchangedLists {
  Tensors& out;      // out[i] is received from rank i; empty: filled
  const Tensors& in; // in[i] is sent to rank i
};

// Sends a tensor to every rank of the group and receives one from each:
//
//   alltoall({.out = received, .in = sent});
//
// Shapes may differ by pair. An empty `out` gets tensors like those of `in`.
// Throws InvalidArgument for an out tensor that was computed and needs a
// gradient: then the lists are probably exchanged.
WorkPtr alltoall(
    const ExchangedLists& lists,
    const GroupPtr& group = nullptr,
    bool sync_op = true);

// By position, PyTorch's order is (out, in) and Paddle's is (in, out). So that
// neither compiles and overwrites what should be sent, write
// alltoall({.out = received, .in = sent}).
WorkPtr alltoall(
    const Tensors& out,
    const Tensors& in,
    const GroupPtr& group = nullptr,
    bool sync_op = true) = delete;

// How many rows of each tensor belong to each rank of the group; empty: equal
// parts. Named, because both are lists of the same type.
//
//   alltoall_single(out, in, {.out = {1, 2}, .in = {2, 2}});
struct RowSplits {
  std::vector<std::int64_t> out = {}; // received from each rank
  std::vector<std::int64_t> in = {};  // sent to each rank
};

// Sends rows of `in` to the ranks and receives rows of `out`, both along dim 0.
WorkPtr alltoall_single(
    const at::Tensor& out,
    const at::Tensor& in,
    const RowSplits& splits = {},
    const GroupPtr& group = nullptr,
    bool sync_op = true);

// Sends one message to a rank, which must call recv() with a tensor of the same
// type and number of elements. Messages from one rank to another arrive in
// order; no other rank takes part.
WorkPtr send(
    const at::Tensor& tensor,
    int dst = 0,
    const GroupPtr& group = nullptr,
    bool sync_op = true);
WorkPtr recv(
    const at::Tensor& tensor,
    int src = 0,
    const GroupPtr& group = nullptr,
    bool sync_op = true);
WorkPtr isend(
    const at::Tensor& tensor, int dst, const GroupPtr& group = nullptr);
WorkPtr irecv(
    const at::Tensor& tensor, int src, const GroupPtr& group = nullptr);

// A message for batch_isend_irecv(): `op` is &isend or &irecv.
struct P2POp {
  using Function = WorkPtr (*)(const at::Tensor&, int, const GroupPtr&);

  Function op = nullptr;
  std::shared_ptr<at::Tensor> tensor;
  int peer = 0;
  GroupPtr group;

  P2POp(
      Function op_in,
      const at::Tensor& tensor_in,
      int peer_in,
      GroupPtr group_in = nullptr);
};

// Issues all messages at once, so that ranks may list them in any order.
std::vector<WorkPtr> batch_isend_irecv(const std::vector<P2POp>& ops);

// Blocks until all ranks of the group have called it.
void barrier(const GroupPtr& group = nullptr);

// Waits for an operation that was issued with sync_op = false.
void wait(const WorkPtr& work);

// Waits for all collectives that this rank has issued to the group, so that the
// tensor is ready for use.
void wait(const at::Tensor& tensor, const GroupPtr& group = nullptr);

} // namespace argosy
