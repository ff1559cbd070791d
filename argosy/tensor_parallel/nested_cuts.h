#pragma once

#include <cstdint>
#include <vector>

#include "argosy/comm/shards.h"
#include "argosy/dtensor/layout/layout.h"

// Tensors that are cut over several groups, dim by dim. Not installed.
namespace argosy::tensor_parallel {

// Dim `dim` is cut into one part for each rank of a group, as
// comm::shard_range() cuts.
struct Cut {
  std::int64_t dim = 0;
  GroupPtr group;
  // The size of what is cut, on this rank. 0: not said, and the parts are
  // equal.
  std::int64_t size = 0;
  // Parts are multiples of this, which divides the size: so many elements are
  // never cut apart.
  std::int64_t unit = 1;
};

// From the outermost to the innermost: a later cut of the same dim cuts the
// part that the earlier ones left.
using Cuts = std::vector<Cut>;

// A rank's part of a dim of `size` elements.
comm::ShardRange range_of(std::int64_t size, const Cut& cut);

// Concatenates the parts of the ranks, and the reverse of it: sums what the
// ranks have, and leaves each its part. As comm::gather_shards() and
// comm::reduce_shards().
comm::PendingTensor gather_cut(
    const at::Tensor& part, const Cut& cut, bool sync_op = true);
comm::PendingTensor sum_cut(
    const at::Tensor& summand, const Cut& cut, bool sync_op = true);

// With a dim of its own for the elements of a unit behind `dim`; a view of a
// contiguous tensor.
at::Tensor by_unit(
    const at::Tensor& tensor, std::int64_t dim, std::int64_t unit);

// Whether all cuts of `dim` together divide `size`.
bool divides(std::int64_t size, std::int64_t dim, const Cuts& cuts);

// The cuts with their sizes, for a tensor that has these sizes on all ranks
// together.
Cuts with_sizes(Cuts cuts, const std::vector<std::int64_t>& sizes);

// This rank's range of dim `dim`, which has `size` elements on all ranks
// together.
comm::ShardRange own_range(
    std::int64_t size, std::int64_t dim, const Cuts& cuts);

// This rank's part: a view.
at::Tensor own_part(const at::Tensor& whole, const Cuts& cuts);

// The parts of all ranks together; the cuts must have sizes if the parts are
// not equal. All ranks must call it; blocks.
at::Tensor gathered(const at::Tensor& part, const Cuts& cuts);

// Remembers with the parameter how it is cut out of a tensor of shape `whole`.
// Marks it as distributed if more than one rank has a part.
void set_cuts(
    const at::Tensor& parameter, const Cuts& cuts, const dtensor::Shape& whole);

// Null if set_cuts() was not called.
const Cuts* find_cuts(const at::Tensor& parameter);

} // namespace argosy::tensor_parallel
