#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "argosy/dtensor/layout/dist_attr.h"
#include "argosy/dtensor/layout/layout.h"

// Who gives which block to whom, for any change of shards, within a mesh or
// from one to another. Every rank gets each element that it lacks exactly once,
// which is the least that can be sent. Pure.
namespace argosy::dtensor {

// A block that goes to, or comes from, another rank.
struct BlockTransfer {
  int peer = 0; // global rank
  Box box;      // in the tensor's coordinates

  bool operator==(const BlockTransfer&) const = default;
};

struct BlockTransfers {
  Box source;              // what this rank holds before
  Box target;              // and after
  std::optional<Box> kept; // what it has already, if anything
  std::vector<BlockTransfer> sends;
  std::vector<BlockTransfer> receives;
};

// `from` and `to` replicate or shard; an axis of Partial must be the same in
// both, in meshes of equal shape: its parts stay where they are, or go to the
// rank that stands at the same place.
//
// The giver of a block is the one among its holders that stands where the taker
// does on all axes that do not shard `from`, so the load is spread, and axes
// that nothing changes on are not crossed.
BlockTransfers block_transfers(
    const Shape& global, const DistAttr& from, const DistAttr& to, int rank);

// Elements that this rank lacks, so must receive.
std::int64_t lacking(
    const Shape& global, const DistAttr& from, const DistAttr& to, int rank);

// The axes of one mesh that blocks cross when `from` becomes `to`.
std::vector<int> crossed_axes(const Placements& from, const Placements& to);

// Whether an axis can be cut along `dim` in place: no later axis cuts it too.
bool is_innermost(const Placements& placements, std::size_t axis, int dim);

} // namespace argosy::dtensor
