#include "argosy/comm/ops.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/GradMode.h>

#include <numeric>
#include <utility>

#include "argosy/comm/op.h"
#include "argosy/comm/tensors.h"
#include "argosy/common/error.h"

// Each function checks its arguments, describes the call as an Op and hands it
// to the group. The checks run on the calling thread, so that an error appears
// at the call and not later in Work::wait(). They are local: whether the peers
// pass matching tensors is not known here. Calls of dtype_of() whose result is
// not used are there for its check.
namespace argosy {

namespace {

using comm::DType;
using comm::dtype_of;
using comm::Op;
using comm::OpKind;
using Counts = std::vector<std::size_t>;

GroupPtr group_or_default(const GroupPtr& group) {
  return group ? group : get_group(0);
}

int root_in(const Group& group, int global_rank, OpKind kind) {
  const int root = group.get_group_rank(global_rank);
  ARGOSY_CHECK(
      root >= 0,
      "[comm.{}] rank {} is no member of group {}",
      to_string(kind),
      global_rank,
      group.id());
  return root;
}

void check_same_type(const at::Tensor& a, const at::Tensor& b, OpKind kind) {
  dtype_of(a, to_string(kind));
  dtype_of(b, to_string(kind));
  ARGOSY_CHECK(
      a.scalar_type() == b.scalar_type(),
      "[comm.{}] the tensors are of {} and {}",
      to_string(kind),
      c10::toString(a.scalar_type()),
      c10::toString(b.scalar_type()));
}

void check_reduction(const at::Tensor& tensor, ReduceOp op, OpKind kind) {
  comm::check_supported(op, dtype_of(tensor, to_string(kind)));
}

// A list with one tensor for each rank.
void check_size(const Tensors& list, int num_ranks, OpKind kind) {
  ARGOSY_CHECK(
      static_cast<int>(list.size()) == num_ranks,
      "[comm.{}] a list of {} tensors for {} ranks",
      to_string(kind),
      list.size(),
      num_ranks);
}

// The same, all with the elements of `one`.
void check_list(
    const Tensors& list, const at::Tensor& one, int num_ranks, OpKind kind) {
  check_size(list, num_ranks, kind);
  for (const at::Tensor& tensor : list) {
    check_same_type(tensor, one, kind);
    ARGOSY_CHECK(
        tensor.numel() == one.numel(),
        "[comm.{}] a tensor of {} elements in the list, expected {}",
        to_string(kind),
        tensor.numel(),
        one.numel());
  }
}

// `whole` cut into parts of as many elements as `part` has, one for each rank.
Counts equal_parts(
    const at::Tensor& whole,
    const at::Tensor& part,
    int num_ranks,
    OpKind kind) {
  check_same_type(whole, part, kind);
  ARGOSY_CHECK(
      whole.numel() == part.numel() * num_ranks,
      "[comm.{}] {} elements for {} ranks with {} each",
      to_string(kind),
      whole.numel(),
      num_ranks,
      part.numel());
  return Counts(
      static_cast<std::size_t>(num_ranks),
      static_cast<std::size_t>(part.numel()));
}

void fill_like(Tensors& list, const at::Tensor& tensor, int num_ranks) {
  // As in Paddle, an empty list asks for new tensors.
  if (list.empty()) {
    for (int rank = 0; rank < num_ranks; ++rank) {
      list.push_back(at::empty_like(tensor, at::MemoryFormat::Contiguous));
    }
  }
}

} // namespace

WorkPtr all_reduce(
    const at::Tensor& tensor,
    ReduceOp op,
    const GroupPtr& group,
    bool sync_op) {
  check_reduction(tensor, op, OpKind::AllReduce);
  return group_or_default(group)->issue(
      {.kind = OpKind::AllReduce, .in = {tensor}, .reduce = op}, sync_op);
}

WorkPtr reduce(
    const at::Tensor& tensor,
    int dst,
    ReduceOp op,
    const GroupPtr& group,
    bool sync_op) {
  check_reduction(tensor, op, OpKind::Reduce);
  const GroupPtr members = group_or_default(group);
  return members->issue(
      {.kind = OpKind::Reduce,
       .in = {tensor},
       .reduce = op,
       .root = root_in(*members, dst, OpKind::Reduce)},
      sync_op);
}

WorkPtr broadcast(
    const at::Tensor& tensor, int src, const GroupPtr& group, bool sync_op) {
  dtype_of(tensor, "broadcast");
  const GroupPtr members = group_or_default(group);
  return members->issue(
      {.kind = OpKind::Broadcast,
       .in = {tensor},
       .root = root_in(*members, src, OpKind::Broadcast)},
      sync_op);
}

WorkPtr all_gather(
    Tensors& tensor_list,
    const at::Tensor& tensor,
    const GroupPtr& group,
    bool sync_op) {
  dtype_of(tensor, "all_gather");
  const GroupPtr members = group_or_default(group);
  fill_like(tensor_list, tensor, members->nranks());
  check_list(tensor_list, tensor, members->nranks(), OpKind::AllGather);
  return members->issue(
      {.kind = OpKind::AllGather, .in = {tensor}, .out = tensor_list}, sync_op);
}

WorkPtr all_gather(
    const at::Tensor& out,
    const at::Tensor& tensor,
    const GroupPtr& group,
    bool sync_op) {
  dtype_of(tensor, "all_gather");
  const GroupPtr members = group_or_default(group);
  return members->issue(
      {.kind = OpKind::AllGather,
       .in = {tensor},
       .out = {out},
       .out_counts =
           equal_parts(out, tensor, members->nranks(), OpKind::AllGather)},
      sync_op);
}

WorkPtr gather(
    const at::Tensor& tensor,
    Tensors* gather_list,
    int dst,
    const GroupPtr& group,
    bool sync_op) {
  dtype_of(tensor, "gather");
  const GroupPtr members = group_or_default(group);
  Op op{
      .kind = OpKind::Gather,
      .in = {tensor},
      .root = root_in(*members, dst, OpKind::Gather)};
  // Only the root has a list; the others may pass null.
  if (members->rank() == op.root) {
    ARGOSY_CHECK(
        gather_list != nullptr,
        "[comm.gather] rank {} receives and must give a list",
        dst);
    fill_like(*gather_list, tensor, members->nranks());
    check_list(*gather_list, tensor, members->nranks(), OpKind::Gather);
    op.out = *gather_list;
  }
  return members->issue(std::move(op), sync_op);
}

namespace {

// Without what the root sends.
Op scatter_op(const at::Tensor& tensor, const Group& group, int src) {
  dtype_of(tensor, "scatter");
  return {
      .kind = OpKind::Scatter,
      .out = {tensor},
      .root = root_in(group, src, OpKind::Scatter)};
}

} // namespace

WorkPtr scatter(
    const at::Tensor& tensor,
    const Tensors& tensor_list,
    int src,
    const GroupPtr& group,
    bool sync_op) {
  const GroupPtr members = group_or_default(group);
  Op op = scatter_op(tensor, *members, src);
  if (members->rank() == op.root) {
    check_list(tensor_list, tensor, members->nranks(), OpKind::Scatter);
    op.in = tensor_list;
  }
  return members->issue(std::move(op), sync_op);
}

WorkPtr scatter(
    const at::Tensor& tensor,
    const at::Tensor& whole,
    int src,
    const GroupPtr& group,
    bool sync_op) {
  const GroupPtr members = group_or_default(group);
  Op op = scatter_op(tensor, *members, src);
  if (members->rank() == op.root) {
    op.in = {whole};
    op.in_counts =
        equal_parts(whole, tensor, members->nranks(), OpKind::Scatter);
  }
  return members->issue(std::move(op), sync_op);
}

WorkPtr reduce_scatter(
    const at::Tensor& tensor,
    const Tensors& tensor_list,
    ReduceOp op,
    const GroupPtr& group,
    bool sync_op) {
  check_reduction(tensor, op, OpKind::ReduceScatter);
  const GroupPtr members = group_or_default(group);
  check_list(tensor_list, tensor, members->nranks(), OpKind::ReduceScatter);
  return members->issue(
      {.kind = OpKind::ReduceScatter,
       .in = tensor_list,
       .out = {tensor},
       .reduce = op},
      sync_op);
}

WorkPtr reduce_scatter(
    const at::Tensor& out,
    const at::Tensor& tensor,
    ReduceOp op,
    const GroupPtr& group,
    bool sync_op) {
  check_reduction(tensor, op, OpKind::ReduceScatter);
  const GroupPtr members = group_or_default(group);
  return members->issue(
      {.kind = OpKind::ReduceScatter,
       .in = {tensor},
       .out = {out},
       .in_counts =
           equal_parts(tensor, out, members->nranks(), OpKind::ReduceScatter),
       .reduce = op},
      sync_op);
}

namespace {

// Elements for each rank, from rows for each rank.
Counts element_counts(
    const at::Tensor& tensor,
    const std::vector<std::int64_t>& splits,
    int num_ranks,
    const char* which) {
  ARGOSY_CHECK(
      tensor.dim() > 0, "[comm.alltoall_single] {} has no dim 0", which);
  const std::int64_t rows = tensor.size(0);
  std::vector<std::int64_t> parts = splits;
  if (parts.empty()) {
    ARGOSY_CHECK(
        rows % num_ranks == 0,
        "[comm.alltoall_single] {} has {} rows, which {} ranks do not share "
        "equally; give splits",
        which,
        rows,
        num_ranks);
    parts.assign(static_cast<std::size_t>(num_ranks), rows / num_ranks);
  }
  ARGOSY_CHECK(
      static_cast<int>(parts.size()) == num_ranks &&
          std::accumulate(parts.begin(), parts.end(), std::int64_t{0}) == rows,
      "[comm.alltoall_single] the splits of {} must be {} numbers with sum {}",
      which,
      num_ranks,
      rows);
  // The elements of one row. Without rows there is nothing to divide by.
  const std::int64_t row = rows == 0 ? 0 : tensor.numel() / rows;
  Counts counts;
  for (const std::int64_t part : parts) {
    ARGOSY_CHECK(part >= 0, "[comm.alltoall_single] a split is ", part);
    counts.push_back(static_cast<std::size_t>(part * row));
  }
  return counts;
}

// A collective writes without autograd's knowledge. Nobody wants that of a
// tensor that was computed and is to be differentiated, so it is what should be
// sent: Paddle has the other order.
void check_is_no_result(const at::Tensor& out, const char* call) {
  ARGOSY_CHECK(
      !out.defined() || !at::GradMode::is_enabled() || !out.requires_grad() ||
          out.is_leaf(),
      "[comm.all_to_all] what is to be received would overwrite a tensor of "
      "shape {} that was computed and needs a gradient, expected {}: are the "
      "two exchanged?",
      out.sizes(),
      call);
}

} // namespace

WorkPtr alltoall(
    const ExchangedLists& lists, const GroupPtr& group, bool sync_op) {
  const auto& [out_list, in_list] = lists;
  const GroupPtr members = group_or_default(group);
  ARGOSY_CHECK(
      !in_list.empty(),
      "[comm.all_to_all] no tensors to send, expected alltoall({.out = "
      "received, .in = sent}) with a tensor for each of {} ranks in `in`",
      members->nranks());
  if (out_list.empty()) {
    for (const at::Tensor& tensor : in_list) {
      dtype_of(tensor, "all_to_all");
      out_list.push_back(at::empty_like(tensor, at::MemoryFormat::Contiguous));
    }
  }
  // Sizes may differ from tensor to tensor, and a rank does not know what its
  // peers send: only the number of tensors and their types can be checked.
  for (const at::Tensor& tensor : out_list) {
    check_is_no_result(tensor, "alltoall({.out = received, .in = sent})");
  }
  for (const Tensors* list : {&std::as_const(out_list), &in_list}) {
    check_size(*list, members->nranks(), OpKind::AllToAll);
    for (const at::Tensor& tensor : *list) {
      check_same_type(tensor, in_list.front(), OpKind::AllToAll);
    }
  }
  return members->issue(
      {.kind = OpKind::AllToAll, .in = in_list, .out = out_list}, sync_op);
}

WorkPtr alltoall_single(
    const at::Tensor& out,
    const at::Tensor& in,
    const RowSplits& splits,
    const GroupPtr& group,
    bool sync_op) {
  check_is_no_result(out, "alltoall_single(out, in)");
  check_same_type(out, in, OpKind::AllToAll);
  const GroupPtr members = group_or_default(group);
  const int n = members->nranks();
  return members->issue(
      {.kind = OpKind::AllToAll,
       .in = {in},
       .out = {out},
       .in_counts = element_counts(in, splits.in, n, "in"),
       .out_counts = element_counts(out, splits.out, n, "out")},
      sync_op);
}

namespace {

WorkPtr issue_message(
    OpKind kind,
    const at::Tensor& tensor,
    int peer,
    const GroupPtr& group,
    bool sync_op) {
  dtype_of(tensor, to_string(kind));
  const GroupPtr members = group_or_default(group);
  const int root = root_in(*members, peer, kind);
  ARGOSY_CHECK(
      root != members->rank(),
      "[comm.{}] rank {} is this rank itself",
      to_string(kind),
      peer);
  return members->issue({.kind = kind, .in = {tensor}, .root = root}, sync_op);
}

} // namespace

WorkPtr send(
    const at::Tensor& tensor, int dst, const GroupPtr& group, bool sync_op) {
  return issue_message(OpKind::Send, tensor, dst, group, sync_op);
}

WorkPtr recv(
    const at::Tensor& tensor, int src, const GroupPtr& group, bool sync_op) {
  return issue_message(OpKind::Recv, tensor, src, group, sync_op);
}

WorkPtr isend(const at::Tensor& tensor, int dst, const GroupPtr& group) {
  return send(tensor, dst, group, false);
}

WorkPtr irecv(const at::Tensor& tensor, int src, const GroupPtr& group) {
  return recv(tensor, src, group, false);
}

P2POp::P2POp(
    Function op_in, const at::Tensor& tensor_in, int peer_in, GroupPtr group_in)
    : op(op_in),
      tensor(std::make_shared<at::Tensor>(tensor_in)),
      peer(peer_in),
      group(std::move(group_in)) {}

std::vector<WorkPtr> batch_isend_irecv(const std::vector<P2POp>& ops) {
  ARGOSY_CHECK(!ops.empty(), "[comm.batch_isend_irecv] there are no messages");
  for (const P2POp& each : ops) {
    ARGOSY_CHECK(
        each.op == &isend || each.op == &irecv,
        "[comm.batch_isend_irecv] op must be isend or irecv");
  }
  // In a second loop: a wrong op throws before any message is under way. Each
  // direction to a peer has a lane of its own, so the order cannot deadlock.
  std::vector<WorkPtr> works;
  for (const P2POp& each : ops) {
    works.push_back(each.op(*each.tensor, each.peer, each.group));
  }
  return works;
}

void barrier(const GroupPtr& group) {
  group_or_default(group)->issue({.kind = OpKind::Barrier}, true);
}

void wait(const WorkPtr& work) {
  ARGOSY_CHECK(work != nullptr, "[comm.wait] there is no work");
  work->wait();
}

void wait(const at::Tensor& /*tensor*/, const GroupPtr& group) {
  // Collectives of a group end in the order of their calls, so the one that
  // writes the tensor is among those that drain() waits for.
  group_or_default(group)->drain();
}

} // namespace argosy
