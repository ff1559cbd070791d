#include "argosy/dtensor/tensor/dim_group.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <numeric>

#include "argosy/comm/ops.h"
#include "argosy/dtensor/tensor/mesh_state.h"
#include "argosy/mesh/rank_mesh.h"

namespace argosy::dtensor {

namespace {

// An empty range may begin outside of the tensor, which narrow() rejects.
at::Tensor part(const at::Tensor& tensor, int dim, const Range& range) {
  return tensor.narrow(dim, range.size() == 0 ? 0 : range.begin, range.size());
}

// Looks at all members and not at this rank alone: all must decide alike
// whether the collective runs, or some would wait for the others forever.
bool has_all(const Ranges& have, const Ranges& want) {
  for (std::size_t i = 0; i < have.size(); ++i) {
    if (overlap(have[i], want[i]).size() < want[i].size()) {
      return false;
    }
  }
  return true;
}

} // namespace

Range overlap(const Range& a, const Range& b) {
  const std::int64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

Range within(const Range& range, const Range& outer) {
  return {range.begin - outer.begin, range.end - outer.begin};
}

DimGroup::DimGroup(MeshState& mesh, int dim, const Placements& placements)
    : dim_(dim), mesh_shape_(mesh.mesh().shape()) {
  std::vector<int> axes;
  for (std::size_t axis = 0; axis < placements.size(); ++axis) {
    if (placements[axis].is_shard(dim)) {
      axes.push_back(static_cast<int>(axis));
    }
  }
  if (axes.empty()) {
    members_.push_back(mesh.ranks().coordinates());
    return;
  }
  group_ = mesh.ranks().group_over(axes);
  for (const int rank : group_->ranks()) {
    members_.push_back(*mesh.mesh().coordinates_of(rank));
  }
  own_ = static_cast<std::size_t>(group_->rank());
}

Ranges DimGroup::ranges(
    const Shape& global, const Placements& placements) const {
  const auto dim = static_cast<std::size_t>(dim_);
  Ranges all;
  for (const Shape& coordinates : members_) {
    const Box box = local_box(global, mesh_shape_, placements, coordinates);
    all.push_back({box.offset[dim], box.offset[dim] + box.size[dim]});
  }
  return all;
}

// One all-to-all. What a rank has itself is copied and not sent; what it lacks
// is received where it belongs in the result.
at::Tensor DimGroup::exchange(
    const at::Tensor& local, const Ranges& have, const Ranges& want) const {
  if (!is_cut() || has_all(have, want)) {
    return part(local, dim_, within(want[own_], have[own_]));
  }
  Shape shape = local.sizes().vec();
  shape[static_cast<std::size_t>(dim_)] = want[own_].size();
  const at::Tensor out = at::empty(shape, local.options());
  Tensors receives(size(), at::empty({0}, local.options()));
  for (std::size_t i = 0; i < size(); ++i) {
    const Range piece = overlap(have[i], want[own_]);
    if (piece.size() == 0) {
      continue;
    }
    const at::Tensor place = part(out, dim_, within(piece, want[own_]));
    if (i == own_) {
      place.copy_(part(local, dim_, within(piece, have[own_])));
    } else {
      receives[i] = place;
    }
  }
  alltoall({.out = receives, .in = sends(local, have, want)}, group_);
  return out;
}

// Unlike exchange(), several members may have the same element. So pieces
// arrive beside the result and are added, and there is no shortcut when each
// has all that it wants: others may have more to add.
at::Tensor DimGroup::exchange_sum(
    const at::Tensor& local, const Ranges& have, const Ranges& want) const {
  if (!is_cut()) {
    return part(local, dim_, within(want[own_], have[own_]));
  }
  Shape shape = local.sizes().vec();
  const auto dim = static_cast<std::size_t>(dim_);
  Tensors receives;
  for (std::size_t i = 0; i < size(); ++i) {
    shape[dim] = i == own_ ? 0 : overlap(have[i], want[own_]).size();
    receives.push_back(at::empty(shape, local.options()));
  }
  alltoall({.out = receives, .in = sends(local, have, want)}, group_);
  receives[own_] =
      part(local, dim_, within(overlap(have[own_], want[own_]), have[own_]));
  shape[dim] = want[own_].size();
  const at::Tensor out = at::zeros(shape, local.options());
  for (std::size_t i = 0; i < size(); ++i) {
    const Range piece = overlap(have[i], want[own_]);
    if (piece.size() > 0) {
      part(out, dim_, within(piece, want[own_])).add_(receives[i]);
    }
  }
  return out;
}

at::Tensor DimGroup::concatenated(
    const at::Tensor& local, const Shape& sizes) const {
  // Parts of a dim follow the mesh coordinates, the first axis being the
  // outermost; the group's order may be another.
  std::vector<std::size_t> order(size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(
      order, [&](auto a, auto b) { return members_[a] < members_[b]; });
  Ranges have(size());
  std::int64_t end = 0;
  for (const std::size_t member : order) {
    have[member] = {end, end + sizes[member]};
    end += sizes[member];
  }
  return exchange(local, have, Ranges(size(), Range{0, end}));
}

std::vector<at::Tensor> DimGroup::sends(
    const at::Tensor& local, const Ranges& have, const Ranges& want) const {
  Tensors pieces(size(), at::empty({0}, local.options()));
  for (std::size_t i = 0; i < size(); ++i) {
    const Range piece = overlap(have[own_], want[i]);
    if (i != own_ && piece.size() > 0) {
      pieces[i] = part(local, dim_, within(piece, have[own_]));
    }
  }
  return pieces;
}

} // namespace argosy::dtensor
