#include "bindings/python/operations.h"

#include <numeric>

#include "argosy/comm/tensors.h"
#include "argosy/common/error.h"

namespace argosy::python {

namespace {

using comm::Op;
using comm::OpKind;
using Counts = std::vector<std::size_t>;

// c10d's interface takes a list with a tensor for each device of a process.
template <typename List>
const auto& only_of(const List& list, std::string_view op) {
  ARGOSY_CHECK(
      list.size() == 1,
      "[comm.{}] {} tensors, expected one: a process has one device",
      op,
      list.size());
  return list.front();
}

void check_alike(const at::Tensor& a, const at::Tensor& b, OpKind kind) {
  check_tensor(a, to_string(kind));
  ARGOSY_CHECK(
      a.scalar_type() == b.scalar_type(),
      "[comm.{}] a tensor of {} and one of {}",
      to_string(kind),
      c10::toString(a.scalar_type()),
      c10::toString(b.scalar_type()));
}

void check_length(const Tensors& list, int num_ranks, OpKind kind) {
  ARGOSY_CHECK(
      static_cast<int>(list.size()) == num_ranks,
      "[comm.{}] {} tensors for {} ranks",
      to_string(kind),
      list.size(),
      num_ranks);
}

// Checks for one tensor per rank, each with as many elements as `part`.
void check_parts(
    const Tensors& list, const at::Tensor& part, int num_ranks, OpKind kind) {
  check_length(list, num_ranks, kind);
  for (const at::Tensor& tensor : list) {
    check_alike(tensor, part, kind);
    ARGOSY_CHECK(
        tensor.numel() == part.numel(),
        "[comm.{}] a tensor of {} for a rank's {}",
        to_string(kind),
        tensor.sizes(),
        part.sizes());
  }
}

Counts equal_counts(
    const at::Tensor& whole,
    const at::Tensor& part,
    int num_ranks,
    OpKind kind) {
  check_tensor(part, to_string(kind));
  check_alike(whole, part, kind);
  ARGOSY_CHECK(
      whole.numel() == part.numel() * num_ranks,
      "[comm.{}] a tensor of {} for {} ranks with {} each",
      to_string(kind),
      whole.sizes(),
      num_ranks,
      part.sizes());
  return Counts(
      static_cast<std::size_t>(num_ranks),
      static_cast<std::size_t>(part.numel()));
}

// Converts rows per rank to elements per rank.
Counts row_counts(
    const at::Tensor& tensor, std::vector<std::int64_t> rows, int num_ranks) {
  const std::int64_t all = tensor.dim() == 0 ? 0 : tensor.size(0);
  if (rows.empty()) {
    ARGOSY_CHECK(
        all % num_ranks == 0,
        "[comm.all_to_all] {} rows are not shared equally by {} ranks",
        all,
        num_ranks);
    rows.assign(static_cast<std::size_t>(num_ranks), all / num_ranks);
  }
  ARGOSY_CHECK(
      static_cast<int>(rows.size()) == num_ranks &&
          std::accumulate(rows.begin(), rows.end(), std::int64_t{0}) == all,
      "[comm.all_to_all] splits {}, expected one for each of {} ranks, with "
      "sum {}",
      c10::IntArrayRef(rows),
      num_ranks,
      all);
  Counts counts;
  for (const std::int64_t count : rows) {
    ARGOSY_CHECK(count >= 0, "[comm.all_to_all] a split of ", count);
    counts.push_back(
        static_cast<std::size_t>(all == 0 ? 0 : count * tensor.numel() / all));
  }
  return counts;
}

// Checks here, on the calling thread, so that the error comes from the call and
// not from the thread that runs the operation.
Op reduction(
    OpKind kind, const at::Tensor& tensor, const c10d::ReduceOp& reduce) {
  check_tensor(tensor, to_string(kind));
  const comm::ReduceOp op = reduce_op_of(reduce);
  comm::check_supported(op, comm::dtype_of(tensor));
  return {.kind = kind, .reduce = op};
}

} // namespace

const at::Tensor& only(const Tensors& tensors, std::string_view op) {
  return only_of(tensors, op);
}

const Tensors& only(const TensorLists& lists, std::string_view op) {
  return only_of(lists, op);
}

void check_tensor(const at::Tensor& tensor, std::string_view op) {
  comm::dtype_of(tensor, op);
}

void check_root(std::int64_t root, int num_ranks, std::string_view op) {
  ARGOSY_CHECK(
      root >= 0 && root < num_ranks,
      "[comm.{}] rank {} is not in [0, {})",
      op,
      root,
      num_ranks);
}

comm::ReduceOp reduce_op_of(const c10d::ReduceOp& op) {
  switch (op.op_) {
    case c10d::ReduceOp::SUM:
      return comm::ReduceOp::SUM;
    case c10d::ReduceOp::AVG:
      return comm::ReduceOp::AVG;
    case c10d::ReduceOp::PRODUCT:
      return comm::ReduceOp::PROD;
    case c10d::ReduceOp::MIN:
      return comm::ReduceOp::MIN;
    case c10d::ReduceOp::MAX:
      return comm::ReduceOp::MAX;
    case c10d::ReduceOp::BAND:
      return comm::ReduceOp::BAND;
    case c10d::ReduceOp::BOR:
      return comm::ReduceOp::BOR;
    case c10d::ReduceOp::BXOR:
      return comm::ReduceOp::BXOR;
    case c10d::ReduceOp::PREMUL_SUM:
      throw InvalidArgument(
          "[comm.reduce] PREMUL_SUM is for NCCL; multiply, then SUM");
    default:
      throw InvalidArgument("[comm.reduce] an unknown ReduceOp");
  }
}

Op all_reduce_op(const at::Tensor& tensor, const c10d::ReduceOp& reduce) {
  Op op = reduction(OpKind::AllReduce, tensor, reduce);
  op.in = {tensor};
  return op;
}

Op reduce_op(const at::Tensor& tensor, const c10d::ReduceOp& reduce, int root) {
  Op op = reduction(OpKind::Reduce, tensor, reduce);
  op.in = {tensor};
  op.root = root;
  return op;
}

Op broadcast_op(const at::Tensor& tensor, int root) {
  check_tensor(tensor, "broadcast");
  return {.kind = OpKind::Broadcast, .in = {tensor}, .root = root};
}

Op all_gather_op(const Tensors& out, const at::Tensor& in, int num_ranks) {
  check_tensor(in, "all_gather");
  check_parts(out, in, num_ranks, OpKind::AllGather);
  return {.kind = OpKind::AllGather, .in = {in}, .out = out};
}

Op all_gather_op(const at::Tensor& out, const at::Tensor& in, int num_ranks) {
  return {
      .kind = OpKind::AllGather,
      .in = {in},
      .out = {out},
      .out_counts = equal_counts(out, in, num_ranks, OpKind::AllGather)};
}

Op reduce_scatter_op(
    const at::Tensor& out,
    const Tensors& in,
    const c10d::ReduceOp& reduce,
    int num_ranks) {
  Op op = reduction(OpKind::ReduceScatter, out, reduce);
  check_parts(in, out, num_ranks, OpKind::ReduceScatter);
  op.in = in;
  op.out = {out};
  return op;
}

Op reduce_scatter_op(
    const at::Tensor& out,
    const at::Tensor& in,
    const c10d::ReduceOp& reduce,
    int num_ranks) {
  Op op = reduction(OpKind::ReduceScatter, out, reduce);
  op.in = {in};
  op.out = {out};
  op.in_counts = equal_counts(in, out, num_ranks, OpKind::ReduceScatter);
  return op;
}

Op gather_op(
    const Tensors* out, const at::Tensor& in, int root, int num_ranks) {
  check_tensor(in, "gather");
  Op op{.kind = OpKind::Gather, .in = {in}, .root = root};
  if (out != nullptr) {
    check_parts(*out, in, num_ranks, OpKind::Gather);
    op.out = *out;
  }
  return op;
}

Op scatter_op(
    const at::Tensor& out, const Tensors* in, int root, int num_ranks) {
  check_tensor(out, "scatter");
  Op op{.kind = OpKind::Scatter, .out = {out}, .root = root};
  if (in != nullptr) {
    check_parts(*in, out, num_ranks, OpKind::Scatter);
    op.in = *in;
  }
  return op;
}

Op all_to_all_op(const Tensors& out, const Tensors& in, int num_ranks) {
  for (const Tensors* list : {&out, &in}) {
    check_length(*list, num_ranks, OpKind::AllToAll);
    for (const at::Tensor& tensor : *list) {
      check_alike(tensor, in.front(), OpKind::AllToAll);
    }
  }
  return {.kind = OpKind::AllToAll, .in = in, .out = out};
}

Op all_to_all_op(
    const at::Tensor& out,
    const at::Tensor& in,
    const std::vector<std::int64_t>& out_rows,
    const std::vector<std::int64_t>& in_rows,
    int num_ranks) {
  check_tensor(in, "all_to_all");
  check_alike(out, in, OpKind::AllToAll);
  return {
      .kind = OpKind::AllToAll,
      .in = {in},
      .out = {out},
      .in_counts = row_counts(in, in_rows, num_ranks),
      .out_counts = row_counts(out, out_rows, num_ranks)};
}

} // namespace argosy::python
