#include "argosy/dtensor/tensor/reshard_run.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "argosy/comm/ops.h"
#include "argosy/common/error.h"
#include "argosy/dtensor/layout/block_transfers.h"
#include "argosy/mesh/rank_mesh.h"

namespace argosy::dtensor {

namespace {

std::size_t place(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

// Where the members of a group of one axis stand on it, in the group's order.
std::vector<std::int64_t> order_of(
    const Group& group, const ProcessMesh& mesh, int axis) {
  std::vector<std::int64_t> order;
  for (const int rank : group.ranks()) {
    order.push_back(mesh.get_rank_by_dim_and_process_id(axis, rank));
  }
  return order;
}

at::Tensor run_slice(
    const ReshardStep& step,
    const Shape& global,
    const at::Tensor& local,
    const RankMesh& mesh) {
  const Box before = local_box(global, step.from, mesh.rank());
  const Box after = local_box(global, step.to, mesh.rank());
  return block(local, within(after, before));
}

// What leaves a reduction as it is. Of idempotent ones, and of averages, every
// rank may keep the value.
at::Tensor neutral(const at::Tensor& local, comm::ReduceOp op) {
  switch (op) {
    case comm::ReduceOp::SUM:
    case comm::ReduceOp::BXOR:
      return at::full_like(local, 0);
    case comm::ReduceOp::PROD:
      return at::full_like(local, 1);
    default:
      return local;
  }
}

// The first rank of each axis keeps the value, so that reducing it gives the
// value again.
at::Tensor run_make_partial(
    const ReshardStep& step, at::Tensor local, const RankMesh& mesh) {
  for (const int axis : step.axes) {
    if (mesh.coordinates()[place(axis)] != 0) {
      local = neutral(local, step.to.placements[place(axis)].op());
    }
  }
  return local;
}

at::Tensor run_all_gather(
    const ReshardStep& step, const at::Tensor& local, RankMesh& mesh) {
  const int axis = step.axes.front();
  const int dim = step.from.placements[place(axis)].dim();
  const auto group = mesh.group_over(step.axes);
  const auto order = order_of(*group, mesh.mesh(), axis);
  Shape shape = local.sizes().vec();
  // The parts follow one another in memory as the collective writes them: no
  // copy by cat() is needed.
  if (dim == 0 && std::ranges::is_sorted(order)) {
    shape[0] *= group->nranks();
    at::Tensor out = at::empty(shape, local.options());
    all_gather(out, local, group);
    return out;
  }
  Tensors parts(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    parts[place(order[i])] = at::empty(shape, local.options());
  }
  // The collective fills these in the group's order; `parts` has the same
  // tensors in the order of the dim.
  Tensors in_group_order;
  for (const std::int64_t coordinate : order) {
    in_group_order.push_back(parts[place(coordinate)]);
  }
  all_gather(in_group_order, local, group);
  return at::cat(parts, dim);
}

at::Tensor run_all_reduce(
    const ReshardStep& step, const at::Tensor& local, RankMesh& mesh) {
  const auto axis = place(step.axes.front());
  // The collective works in place, and `local` may be part of the caller's
  // DTensor. All axes of one step reduce by the same op.
  at::Tensor out = local.clone(at::MemoryFormat::Contiguous);
  all_reduce(out, step.from.placements[axis].op(), mesh.group_over(step.axes));
  return out;
}

// The chunk for one rank, filled up to the size of the largest, as the
// collective takes chunks of equal size only.
at::Tensor padded_chunk(
    const at::Tensor& local, int dim, std::int64_t ranks, std::int64_t i) {
  Box box = whole(local.sizes().vec());
  const std::int64_t full = chunk_size(local.size(dim), ranks);
  cut(box, dim, ranks, i);
  const at::Tensor chunk = block(local, box);
  if (chunk.size(dim) == full) {
    return chunk.contiguous();
  }
  Shape shape = local.sizes().vec();
  shape[place(dim)] = full;
  at::Tensor padded = at::zeros(shape, local.options());
  padded.narrow(dim, 0, chunk.size(dim)).copy_(chunk);
  return padded;
}

at::Tensor run_reduce_scatter(
    const ReshardStep& step,
    const Shape& global,
    const at::Tensor& local,
    RankMesh& mesh) {
  const int axis = step.axes.front();
  const int dim = step.to.placements[place(axis)].dim();
  const auto group = mesh.group_over(step.axes);
  Tensors chunks;
  for (const std::int64_t i : order_of(*group, mesh.mesh(), axis)) {
    chunks.push_back(padded_chunk(local, dim, group->nranks(), i));
  }
  at::Tensor out = at::empty(chunks.front().sizes(), local.options());
  reduce_scatter(out, chunks, step.from.placements[place(axis)].op(), group);
  // Drops the padding.
  const Box box = local_box(global, step.to, mesh.rank());
  return out.narrow(dim, 0, box.size[place(dim)]);
}

// One entry for each member of the group, in its order; empty without a piece.
Tensors blocks_by_member(
    const at::Tensor& tensor,
    const Box& origin,
    const std::vector<BlockTransfer>& pieces,
    const Group& group) {
  Tensors blocks(place(group.nranks()), at::empty({0}, tensor.options()));
  for (const BlockTransfer& piece : pieces) {
    blocks[place(group.get_group_rank(piece.peer))] =
        block(tensor, within(piece.box, origin));
  }
  return blocks;
}

// Counterpart of block_transfers(), which says who gives what to whom. Blocks
// are views of `local` and of `out`, so received elements land in their place
// without another copy here.
at::Tensor run_block_transfers(
    const BlockTransfers& transfers,
    const at::Tensor& local,
    const GroupPtr& group) {
  at::Tensor out = at::empty(transfers.target.size, local.options());
  if (transfers.kept) {
    block(out, within(*transfers.kept, transfers.target))
        .copy_(block(local, within(*transfers.kept, transfers.source)));
  }
  Tensors receives =
      blocks_by_member(out, transfers.target, transfers.receives, *group);
  const Tensors sends =
      blocks_by_member(local, transfers.source, transfers.sends, *group);
  alltoall({.out = receives, .in = sends}, group);
  return out;
}

at::Tensor run_all_to_all(
    const ReshardStep& step,
    const Shape& global,
    const at::Tensor& local,
    RankMesh& mesh) {
  return run_block_transfers(
      block_transfers(global, step.from, step.to, mesh.rank()),
      local,
      mesh.group_over(step.axes));
}

at::Tensor run_transfer(
    const ReshardStep& step,
    const Shape& global,
    const at::Tensor& local,
    RankMesh& mesh) {
  // All ranks of both meshes, in an order that is the same on each of them.
  std::vector<int> ranks = step.from.mesh.process_ids();
  for (const int rank : step.to.mesh.process_ids()) {
    if (!step.from.mesh.contains(rank)) {
      ranks.push_back(rank);
    }
  }
  const bool takes = step.to.mesh.contains(mesh.rank());
  const at::Tensor nothing = at::empty({0}, local.options());
  if (!takes && !step.from.mesh.contains(mesh.rank())) {
    return nothing;
  }
  BlockTransfers transfers =
      block_transfers(global, step.from, step.to, mesh.rank());
  // A rank that only gives holds nothing afterwards.
  if (!takes) {
    transfers.target = {{0}, {0}};
  }
  return run_block_transfers(transfers, local, mesh.group_of(ranks));
}

at::Tensor run_step(
    const ReshardStep& step,
    const Shape& global,
    const at::Tensor& local,
    RankMesh& mesh) {
  switch (step.kind) {
    case StepKind::Slice:
      return run_slice(step, global, local, mesh);
    case StepKind::MakePartial:
      return run_make_partial(step, local, mesh);
    case StepKind::AllGather:
      return run_all_gather(step, local, mesh);
    case StepKind::AllToAll:
      return run_all_to_all(step, global, local, mesh);
    case StepKind::AllReduce:
      return run_all_reduce(step, local, mesh);
    case StepKind::ReduceScatter:
      return run_reduce_scatter(step, global, local, mesh);
    case StepKind::Transfer:
      return run_transfer(step, global, local, mesh);
  }
  return local;
}

} // namespace

at::Tensor block(const at::Tensor& tensor, const Box& box) {
  at::Tensor part = tensor;
  for (std::int64_t dim = 0; dim < tensor.dim(); ++dim) {
    if (box.size[place(dim)] != part.size(dim)) {
      part = part.narrow(dim, box.offset[place(dim)], box.size[place(dim)]);
    }
  }
  return part;
}

// Members of a mesh run the steps within it; a Transfer is run by the members
// of both meshes, and the steps behind it belong to the target mesh.
at::Tensor run_reshard(
    const ReshardPlan& plan,
    const Shape& global,
    const at::Tensor& local,
    RankMesh& from,
    RankMesh& to) {
  at::Tensor part = local;
  RankMesh* mesh = &from;
  for (const ReshardStep& step : plan.steps) {
    const bool moves = step.kind == StepKind::Transfer;
    if (moves || mesh->is_member()) {
      part = run_step(step, global, part, *mesh);
    }
    mesh = moves ? &to : mesh;
  }
  return part;
}

} // namespace argosy::dtensor
