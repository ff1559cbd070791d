#include "argosy/dtensor/layout/block_transfers.h"

#include <algorithm>

namespace argosy::dtensor {

namespace {

// Where the ranks that give to `taker`, a rank of the mesh `to`, stand on the
// axes that do not shard `from`. Preferably at the taker's own place, so that
// it keeps what it has; else at its place in a mesh of the same shape; else
// takers are spread over the source mesh by their index. Givers and takers
// compute this alike, so sends and receives match without a message.
Shape giver_place(const DistAttr& from, const DistAttr& to, int taker) {
  // A Partial goes to the rank at the same place of the other mesh, even if the
  // taker has another part of it.
  if (!has_partial(from.placements)) {
    if (auto own = from.mesh.coordinates_of(taker)) {
      return *own;
    }
  }
  if (from.mesh.shape() == to.mesh.shape()) {
    return *to.mesh.coordinates_of(taker);
  }
  return from.mesh.coordinates_at(to.mesh.index_of(taker) % from.mesh.size());
}

// All ranks that stand at `place` but for the axes that shard.
std::vector<int> givers(const DistAttr& from, const Shape& place) {
  std::vector<int> axes;
  for (std::size_t axis = 0; axis < from.placements.size(); ++axis) {
    if (from.placements[axis].is_shard()) {
      axes.push_back(static_cast<int>(axis));
    }
  }
  return from.mesh.slice_through(from.mesh.rank_at(place), axes).process_ids();
}

bool stands_at(
    const DistAttr& from, const Shape& coordinates, const Shape& place) {
  for (std::size_t axis = 0; axis < place.size(); ++axis) {
    if (!from.placements[axis].is_shard() && coordinates[axis] != place[axis]) {
      return false;
    }
  }
  return true;
}

void add_transfer(
    std::vector<BlockTransfer>& transfers, int peer, const Box& box) {
  if (box.numel() > 0) {
    transfers.push_back({peer, box});
  }
}

void add_receives(
    BlockTransfers& transfers,
    const Shape& global,
    const DistAttr& from,
    const DistAttr& to,
    int rank) {
  for (const int giver : givers(from, giver_place(from, to, rank))) {
    const Box box =
        intersection(local_box(global, from, giver), transfers.target);
    if (giver == rank && box.numel() > 0) {
      transfers.kept = box;
    } else if (giver != rank) {
      add_transfer(transfers.receives, giver, box);
    }
  }
}

void add_sends(
    BlockTransfers& transfers,
    const Shape& global,
    const DistAttr& from,
    const DistAttr& to,
    int rank) {
  const Shape own = *from.mesh.coordinates_of(rank);
  for (const int taker : to.mesh.process_ids()) {
    if (taker != rank && stands_at(from, own, giver_place(from, to, taker))) {
      add_transfer(
          transfers.sends,
          taker,
          intersection(transfers.source, local_box(global, to, taker)));
    }
  }
}

void sort_by_peer(std::vector<BlockTransfer>& transfers) {
  std::ranges::sort(
      transfers, [](const auto& a, const auto& b) { return a.peer < b.peer; });
}

} // namespace

BlockTransfers block_transfers(
    const Shape& global, const DistAttr& from, const DistAttr& to, int rank) {
  BlockTransfers transfers{
      .source = local_box(global, from, rank),
      .target = local_box(global, to, rank)};
  if (to.mesh.contains(rank)) {
    add_receives(transfers, global, from, to, rank);
  }
  if (from.mesh.contains(rank)) {
    add_sends(transfers, global, from, to, rank);
  }
  sort_by_peer(transfers.sends);
  sort_by_peer(transfers.receives);
  return transfers;
}

std::int64_t lacking(
    const Shape& global, const DistAttr& from, const DistAttr& to, int rank) {
  if (!to.mesh.contains(rank)) {
    return 0;
  }
  const Box target = local_box(global, to, rank);
  // As in giver_place(): a Partial that crosses meshes is not kept in place.
  const bool keeps = from.mesh.contains(rank) &&
      (!has_partial(from.placements) || from.mesh == to.mesh);
  const std::int64_t kept =
      keeps ? intersection(local_box(global, from, rank), target).numel() : 0;
  return target.numel() - kept;
}

std::vector<int> crossed_axes(const Placements& from, const Placements& to) {
  std::vector<int> axes;
  for (std::size_t axis = 0; axis < from.size(); ++axis) {
    if (!from[axis].is_shard()) {
      continue;
    }
    // The chunks are the same as long as those that they are cut from are.
    bool same = from[axis] == to[axis];
    for (std::size_t outer = 0; outer < axis; ++outer) {
      const bool cuts = from[outer] == from[axis] || to[outer] == from[axis];
      same = same && (!cuts || from[outer] == to[outer]);
    }
    if (!same) {
      axes.push_back(static_cast<int>(axis));
    }
  }
  return axes;
}

bool is_innermost(const Placements& placements, std::size_t axis, int dim) {
  for (std::size_t inner = axis + 1; inner < placements.size(); ++inner) {
    if (placements[inner].is_shard(dim)) {
      return false;
    }
  }
  return true;
}

} // namespace argosy::dtensor
