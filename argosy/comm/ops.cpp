#include "argosy/comm/ops.h"

#include <ATen/core/Tensor.h>

#include <numeric>

#include "argosy/comm/backend.h"
#include "argosy/comm/tensors.h"
#include "argosy/common/error.h"

namespace argosy {

namespace {

using comm::Backend;
using comm::Contiguous;
using comm::DType;
using comm::dtype_of;

GroupPtr group_or_default(const GroupPtr& group) {
  return group ? group : get_group(0);
}

int root_in(const Group& group, int global_rank, const char* op) {
  const int root = group.get_group_rank(global_rank);
  ARGOSY_CHECK(
      root >= 0,
      "[comm.",
      op,
      "] rank ",
      global_rank,
      " is no member of group ",
      group.id());
  return root;
}

void check_same_type(const at::Tensor& a, const at::Tensor& b, const char* op) {
  ARGOSY_CHECK(
      a.scalar_type() == b.scalar_type(),
      "[comm.",
      op,
      "] the tensors are of ",
      c10::toString(a.scalar_type()),
      " and ",
      c10::toString(b.scalar_type()));
}

} // namespace

WorkPtr all_reduce(
    const at::Tensor& tensor,
    ReduceOp op,
    const GroupPtr& group,
    bool sync_op) {
  const DType dtype = dtype_of(tensor, "all_reduce");
  comm::check_supported(op, dtype);
  return group_or_default(group)->issue(
      "all_reduce",
      [=](Backend& backend, Deadline deadline) {
        const Contiguous data(tensor);
        backend.all_reduce(
            data.data(), data.data(), data.count(), dtype, op, deadline);
        data.put_back();
      },
      sync_op);
}

WorkPtr reduce(
    const at::Tensor& tensor,
    int dst,
    ReduceOp op,
    const GroupPtr& group,
    bool sync_op) {
  const DType dtype = dtype_of(tensor, "reduce");
  comm::check_supported(op, dtype);
  const GroupPtr members = group_or_default(group);
  const int root = root_in(*members, dst, "reduce");
  const bool receives = members->rank() == root;
  return members->issue(
      "reduce",
      [=](Backend& backend, Deadline deadline) {
        const Contiguous data(tensor);
        backend.reduce(
            data.data(), data.data(), data.count(), dtype, op, root, deadline);
        if (receives) {
          data.put_back();
        }
      },
      sync_op);
}

WorkPtr broadcast(
    const at::Tensor& tensor, int src, const GroupPtr& group, bool sync_op) {
  const DType dtype = dtype_of(tensor, "broadcast");
  const GroupPtr members = group_or_default(group);
  const int root = root_in(*members, src, "broadcast");
  return members->issue(
      "broadcast",
      [=](Backend& backend, Deadline deadline) {
        const Contiguous data(tensor);
        backend.broadcast(data.data(), data.count(), dtype, root, deadline);
        data.put_back();
      },
      sync_op);
}

WorkPtr all_gather(
    const at::Tensor& out,
    const at::Tensor& tensor,
    const GroupPtr& group,
    bool sync_op) {
  const DType dtype = dtype_of(tensor, "all_gather");
  check_same_type(out, tensor, "all_gather");
  const GroupPtr members = group_or_default(group);
  ARGOSY_CHECK(
      out.numel() == tensor.numel() * members->nranks(),
      "[comm.all_gather] ",
      out.numel(),
      " elements for ",
      members->nranks(),
      " ranks with ",
      tensor.numel(),
      " each");
  return members->issue(
      "all_gather",
      [=](Backend& backend, Deadline deadline) {
        const Contiguous from(tensor);
        const Contiguous to(out);
        backend.all_gather(
            from.data(), to.data(), from.count(), dtype, deadline);
        to.put_back();
      },
      sync_op);
}

WorkPtr reduce_scatter(
    const at::Tensor& out,
    const at::Tensor& tensor,
    ReduceOp op,
    const GroupPtr& group,
    bool sync_op) {
  const DType dtype = dtype_of(tensor, "reduce_scatter");
  check_same_type(out, tensor, "reduce_scatter");
  comm::check_supported(op, dtype);
  const GroupPtr members = group_or_default(group);
  ARGOSY_CHECK(
      tensor.numel() == out.numel() * members->nranks(),
      "[comm.reduce_scatter] ",
      tensor.numel(),
      " elements for ",
      members->nranks(),
      " ranks with ",
      out.numel(),
      " each");
  return members->issue(
      "reduce_scatter",
      [=](Backend& backend, Deadline deadline) {
        const Contiguous from(tensor);
        const Contiguous to(out);
        backend.reduce_scatter(
            from.data(), to.data(), to.count(), dtype, op, deadline);
        to.put_back();
      },
      sync_op);
}

namespace {

// Elements for each rank, from rows for each rank.
std::vector<std::size_t> element_counts(
    const at::Tensor& tensor,
    const std::vector<std::int64_t>& splits,
    int num_ranks,
    const char* which) {
  ARGOSY_CHECK(
      tensor.dim() > 0, "[comm.alltoall_single] ", which, " has no dim 0");
  const std::int64_t rows = tensor.size(0);
  std::vector<std::int64_t> parts = splits;
  if (parts.empty()) {
    ARGOSY_CHECK(
        rows % num_ranks == 0,
        "[comm.alltoall_single] ",
        which,
        " has ",
        rows,
        " rows, which ",
        num_ranks,
        " ranks do not share equally; give splits");
    parts.assign(static_cast<std::size_t>(num_ranks), rows / num_ranks);
  }
  ARGOSY_CHECK(
      static_cast<int>(parts.size()) == num_ranks &&
          std::accumulate(parts.begin(), parts.end(), std::int64_t{0}) == rows,
      "[comm.alltoall_single] the splits of ",
      which,
      " must be ",
      num_ranks,
      " numbers with sum ",
      rows);
  const std::int64_t row = rows == 0 ? 0 : tensor.numel() / rows;
  std::vector<std::size_t> counts;
  for (const std::int64_t part : parts) {
    ARGOSY_CHECK(part >= 0, "[comm.alltoall_single] a split is ", part);
    counts.push_back(static_cast<std::size_t>(part * row));
  }
  return counts;
}

} // namespace

WorkPtr alltoall_single(
    const at::Tensor& out,
    const at::Tensor& in,
    const std::vector<std::int64_t>& in_split_sizes,
    const std::vector<std::int64_t>& out_split_sizes,
    const GroupPtr& group,
    bool sync_op) {
  const DType dtype = dtype_of(in, "alltoall_single");
  check_same_type(out, in, "alltoall_single");
  const GroupPtr members = group_or_default(group);
  const auto send = element_counts(in, in_split_sizes, members->nranks(), "in");
  const auto receive =
      element_counts(out, out_split_sizes, members->nranks(), "out");
  return members->issue(
      "alltoall_single",
      [=](Backend& backend, Deadline deadline) {
        const Contiguous from(in);
        const Contiguous to(out);
        backend.all_to_all(
            from.data(), send, to.data(), receive, dtype, deadline);
        to.put_back();
      },
      sync_op);
}

void barrier(const GroupPtr& group) {
  group_or_default(group)->issue(
      "barrier",
      [](Backend& backend, Deadline deadline) { backend.barrier(deadline); },
      true);
}

void wait(const WorkPtr& work) {
  ARGOSY_CHECK(work != nullptr, "[comm.wait] there is no work");
  work->wait();
}

} // namespace argosy
