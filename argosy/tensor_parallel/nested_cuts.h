#pragma once

#include <cstdint>
#include <vector>

#include "argosy/comm/shards.h"

// Tensors that are cut over several groups, dim by dim. Not installed.
namespace argosy::tensor_parallel {

// Dim `dim` is cut into equal parts, one for each rank of a group.
struct Cut {
  std::int64_t dim = 0;
  GroupPtr group;
};

// From the outermost to the innermost: a later cut of the same dim cuts the
// part that the earlier ones left.
using Cuts = std::vector<Cut>;

// Throws InvalidArgument with `what` unless all cuts of `dim` together divide
// `size`.
void check_even(
    const char* what, std::int64_t size, std::int64_t dim, const Cuts& cuts);

// This rank's range of dim `dim`, which has `size` elements on all ranks
// together.
comm::ShardRange own_range(
    std::int64_t size, std::int64_t dim, const Cuts& cuts);

// This rank's part: a view.
at::Tensor own_part(const at::Tensor& whole, const Cuts& cuts);

// The parts of all ranks together. All ranks must call it; blocks.
at::Tensor gathered(const at::Tensor& part, const Cuts& cuts);

// Remembers with the parameter how it is cut. Marks it as distributed if more
// than one rank has a part.
void set_cuts(const at::Tensor& parameter, const Cuts& cuts);

// Null if set_cuts() was not called.
const Cuts* find_cuts(const at::Tensor& parameter);

} // namespace argosy::tensor_parallel
