#include "argosy/comm/op.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "argosy/comm/backend/backend.h"
#include "argosy/comm/tensors.h"
#include "argosy/common/error.h"

namespace argosy::comm {

namespace {

bool is_in_place(OpKind kind) {
  return kind == OpKind::AllReduce || kind == OpKind::Reduce ||
      kind == OpKind::Broadcast || is_pairwise(kind);
}

// Whether this rank's output tensors are written.
bool writes(const Op& op, int rank) {
  switch (op.kind) {
    case OpKind::Reduce:
      return rank == op.root;
    case OpKind::Broadcast:
      return rank != op.root;
    case OpKind::Send:
      return false;
    default:
      return true;
  }
}

// The tensors of one side of an operation as blocks.
class TensorBlocks {
 public:
  TensorBlocks(
      const std::vector<at::Tensor>& tensors,
      const std::vector<std::size_t>& counts) {
    for (const at::Tensor& tensor : tensors) {
      buffers_.emplace_back(tensor);
    }
    if (counts.empty() || tensors.empty()) {
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

// Both sides of an operation.
struct Sides {
  TensorBlocks in;
  TensorBlocks out;

  explicit Sides(const Op& op)
      : in(op.in, op.in_counts), out(op.out, op.out_counts) {}
};

// The blocks of several operations as one operation's: for each rank, theirs
// side by side.
class FusedBlocks {
 public:
  FusedBlocks(std::vector<const Blocks*> parts, std::size_t element)
      : parts_(std::move(parts)), element_(element) {
    std::size_t total = 0;
    for (const Blocks* part : parts_) {
      total += total_count(*part);
    }
    memory_.reset(new std::byte[total * element]);
    std::byte* place = memory_.get();
    for (std::size_t i = 0; i < parts_.front()->size(); ++i) {
      std::size_t count = 0;
      for (const Blocks* part : parts_) {
        count += (*part)[i].count;
      }
      blocks_.push_back({place, count});
      place += count * element;
    }
  }

  const Blocks& get() const { return blocks_; }

  void take() const { // from the parts
    visit([](std::byte* ours, void* theirs, std::size_t bytes) {
      std::memcpy(ours, theirs, bytes);
    });
  }

  void put_back() const {
    visit([](std::byte* ours, void* theirs, std::size_t bytes) {
      std::memcpy(theirs, ours, bytes);
    });
  }

 private:
  template <typename Visit>
  void visit(const Visit& visit_part) const {
    std::byte* place = memory_.get();
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      for (const Blocks* part : parts_) {
        const std::size_t bytes = (*part)[i].count * element_;
        if (bytes > 0) {
          visit_part(place, (*part)[i].data, bytes);
        }
        place += bytes;
      }
    }
  }

  const std::vector<const Blocks*> parts_;
  const std::size_t element_;
  std::unique_ptr<std::byte[]> memory_;
  Blocks blocks_;
};

const at::Tensor& any_tensor(const Op& op) {
  return op.in.empty() ? op.out.front() : op.in.front();
}

// The operation on plain memory. In-place kinds have all in `in`.
void run(
    const Op& op,
    const Blocks& in,
    const Blocks& out,
    Backend& backend,
    Deadline deadline) {
  const DType dtype = dtype_of(any_tensor(op));
  const Reduction reduction{dtype, op.reduce};
  const Block& from = in.empty() ? out.front() : in.front();
  const Block& to = out.empty() ? from : out.front();
  switch (op.kind) {
    case OpKind::Barrier:
      return;
    case OpKind::AllReduce:
      backend.all_reduce(from.data, to.data, from.count, reduction, deadline);
      return;
    case OpKind::Reduce:
      backend.reduce(
          from.data, to.data, from.count, reduction, op.root, deadline);
      return;
    case OpKind::Broadcast:
      backend.broadcast(from.data, from.count, dtype, op.root, deadline);
      return;
    case OpKind::AllGather:
      backend.all_gather(from.data, out, from.count, dtype, deadline);
      return;
    case OpKind::ReduceScatter:
      backend.reduce_scatter(in, to.data, to.count, reduction, deadline);
      return;
    case OpKind::AllToAll:
      backend.all_to_all(in, out, dtype, deadline);
      return;
    case OpKind::Gather:
      backend.gather(from.data, out, from.count, dtype, op.root, deadline);
      return;
    case OpKind::Scatter:
      backend.scatter(in, to.data, to.count, dtype, op.root, deadline);
      return;
    case OpKind::Send:
      backend.send(from.data, from.count, dtype, op.root, deadline);
      return;
    case OpKind::Recv:
      backend.receive(to.data, to.count, dtype, op.root, deadline);
      return;
  }
}

void put_back(const Op& op, const Sides& sides) {
  (is_in_place(op.kind) ? sides.in : sides.out).put_back();
}

// One collective in place of several of the same kind, for the price of one
// copy in and one out.
void execute_fused(
    const std::vector<Op>& ops, int rank, Backend& backend, Deadline deadline) {
  const std::vector<Sides> sides(ops.begin(), ops.end());
  std::vector<const Blocks*> ins;
  std::vector<const Blocks*> outs;
  for (const Sides& each : sides) {
    ins.push_back(&each.in.get());
    outs.push_back(&each.out.get());
  }
  const auto element =
      static_cast<std::size_t>(any_tensor(ops.front()).element_size());
  const FusedBlocks in(ins, element);
  const FusedBlocks out(outs, element);
  in.take();
  run(ops.front(), in.get(), out.get(), backend, deadline);
  if (writes(ops.front(), rank)) {
    (is_in_place(ops.front().kind) ? in : out).put_back();
    for (std::size_t i = 0; i < ops.size(); ++i) {
      put_back(ops[i], sides[i]);
    }
  }
}

void add_side(Side& side, const std::vector<at::Tensor>& tensors) {
  if (tensors.empty()) {
    return;
  }
  if (side.num_tensors == 0) {
    const at::IntArrayRef dims = tensors.front().sizes();
    side.num_dims = static_cast<std::uint32_t>(dims.size());
    std::copy_n(
        dims.begin(),
        std::min(dims.size(), Side::kMostDims),
        side.dims.begin());
  }
  side.num_tensors += static_cast<std::uint32_t>(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    side.elements += tensor.numel();
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
    text += argosy::str(", ", to_string(op.reduce));
  }
  if (op.root >= 0) {
    text +=
        argosy::str(", ", is_pairwise(op.kind) ? "peer " : "root ", op.root);
  }
  return text;
}

Call call_of(const std::vector<Op>& ops, const std::vector<int>& ranks) {
  const Op& first = ops.front();
  Call call{.kind = first.kind, .reduce = first.reduce, .label = first.label};
  std::int64_t element = 0; // all of them can_fuse(), so have one type
  if (!first.in.empty() || !first.out.empty()) {
    call.dtype = dtype_of(any_tensor(first));
    element = static_cast<std::int64_t>(size_of(call.dtype));
  }
  for (const Op& op : ops) {
    const std::int64_t in = call.in.elements;
    const std::int64_t out = call.out.elements;
    add_side(call.in, op.in);
    add_side(call.out, op.out);
    call.bytes +=
        std::max(call.in.elements - in, call.out.elements - out) * element;
  }
  if (first.root >= 0) {
    call.root = ranks[static_cast<std::size_t>(first.root)];
  }
  return call;
}

bool can_fuse(const Op& a, const Op& b) {
  return a.kind == b.kind && !is_pairwise(a.kind) &&
      a.kind != OpKind::Barrier && a.root == b.root && a.reduce == b.reduce &&
      any_tensor(a).scalar_type() == any_tensor(b).scalar_type();
}

void execute(
    const std::vector<Op>& ops, int rank, Backend& backend, Deadline deadline) {
  const Op& op = ops.front();
  if (op.kind == OpKind::Barrier) {
    backend.barrier(deadline);
    return;
  }
  if (ops.size() > 1) {
    execute_fused(ops, rank, backend, deadline);
    return;
  }
  const Sides sides(op);
  run(op, sides.in.get(), sides.out.get(), backend, deadline);
  if (writes(op, rank)) {
    put_back(op, sides);
  }
}

} // namespace argosy::comm
