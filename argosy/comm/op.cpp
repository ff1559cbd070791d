#include "argosy/comm/op.h"

#include <utility>

#include "argosy/comm/backend.h"
#include "argosy/comm/tensors.h"
#include "argosy/common/error.h"

namespace argosy::comm {

namespace {

// The tensors of one side of an operation as blocks, one for each rank.
class RankBlocks {
 public:
  RankBlocks(
      const std::vector<at::Tensor>& tensors,
      const std::vector<std::size_t>& counts) {
    for (const at::Tensor& tensor : tensors) {
      buffers_.emplace_back(tensor);
    }
    if (counts.empty()) {
      for (const Contiguous& buffer : buffers_) {
        blocks_.push_back({buffer.data(), buffer.count()});
      }
      return;
    }
    auto* place = static_cast<std::byte*>(buffers_.front().data());
    for (const std::size_t count : counts) {
      blocks_.push_back({place, count});
      place += count * tensors.front().element_size();
    }
  }

  const Blocks& get() const { return blocks_; }

  void put_back() const {
    for (const Contiguous& buffer : buffers_) {
      buffer.put_back();
    }
  }

 private:
  std::vector<Contiguous> buffers_;
  Blocks blocks_;
};

const at::Tensor& any_tensor(const Op& op) {
  return op.in.empty() ? op.out.front() : op.in.front();
}

void execute_on_blocks(
    const Op& op, int rank, Backend& backend, Deadline deadline) {
  const DType dtype = dtype_of(any_tensor(op));
  const RankBlocks in(op.in, op.in_counts);
  const RankBlocks out(op.out, op.out_counts);
  const Blocks& from = in.get();
  const Blocks& to = out.get();
  const bool is_root = rank == op.root;
  switch (op.kind) {
    case OpKind::AllGather:
      backend.all_gather(from[0].data, to, from[0].count, dtype, deadline);
      break;
    case OpKind::ReduceScatter:
      backend.reduce_scatter(
          from, to[0].data, to[0].count, {dtype, op.reduce}, deadline);
      break;
    case OpKind::AllToAll:
      backend.all_to_all(from, to, dtype, deadline);
      break;
    case OpKind::Gather:
      backend.gather(
          from[0].data,
          is_root ? to : Blocks{},
          from[0].count,
          dtype,
          op.root,
          deadline);
      break;
    case OpKind::Scatter:
      backend.scatter(
          is_root ? from : Blocks{},
          to[0].data,
          to[0].count,
          dtype,
          op.root,
          deadline);
      break;
    default:
      ARGOSY_ASSERT(false);
  }
  out.put_back();
}

void execute_on_one(
    const Op& op, int rank, Backend& backend, Deadline deadline) {
  const Contiguous data(any_tensor(op));
  const DType dtype = dtype_of(any_tensor(op));
  void* at = data.data();
  const std::size_t count = data.count();
  bool written = true;
  switch (op.kind) {
    case OpKind::AllReduce:
      backend.all_reduce(at, at, count, {dtype, op.reduce}, deadline);
      break;
    case OpKind::Reduce:
      backend.reduce(at, at, count, {dtype, op.reduce}, op.root, deadline);
      written = rank == op.root;
      break;
    case OpKind::Broadcast:
      backend.broadcast(at, count, dtype, op.root, deadline);
      written = rank != op.root;
      break;
    case OpKind::Send:
      backend.send(at, count, dtype, op.root, deadline);
      written = false;
      break;
    case OpKind::Recv:
      backend.receive(at, count, dtype, op.root, deadline);
      break;
    default:
      ARGOSY_ASSERT(false);
  }
  if (written) {
    data.put_back();
  }
}

} // namespace

std::string describe(const Op& op) {
  std::string text = to_string(op.kind);
  if (op.kind == OpKind::Barrier) {
    return text;
  }
  const at::Tensor& tensor = any_tensor(op);
  text += argosy::str(" of ", to_string(dtype_of(tensor)), " ", tensor.sizes());
  if (reduces(op.kind)) {
    text += str(", ", to_string(op.reduce));
  }
  if (op.root >= 0) {
    text += str(", ", is_pairwise(op.kind) ? "peer " : "root ", op.root);
  }
  return text;
}

void execute(const Op& op, int rank, Backend& backend, Deadline deadline) {
  switch (op.kind) {
    case OpKind::Barrier:
      backend.barrier(deadline);
      return;
    case OpKind::AllReduce:
    case OpKind::Reduce:
    case OpKind::Broadcast:
    case OpKind::Send:
    case OpKind::Recv:
      execute_on_one(op, rank, backend, deadline);
      return;
    default:
      execute_on_blocks(op, rank, backend, deadline);
  }
}

} // namespace argosy::comm
