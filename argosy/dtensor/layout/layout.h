#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "argosy/dtensor/layout/dist_attr.h"
#include "argosy/dtensor/layout/placement.h"

// Which part of a tensor a rank holds. Pure arithmetic.
namespace argosy::dtensor {

using Shape = std::vector<std::int64_t>;

// A block of a tensor: `size[d]` elements from `offset[d]` on, in each dim.
struct Box {
  Shape offset;
  Shape size;

  std::int64_t numel() const;
  bool operator==(const Box&) const = default;
};

Box whole(const Shape& shape);

// What both have, in the tensor's coordinates; sizes are 0 where nothing is.
Box intersection(const Box& a, const Box& b);

// The same box, seen from the first element of `outer`.
Box within(const Box& box, const Box& outer);

std::string to_string(const Box& box);
std::ostream& operator<<(std::ostream& out, const Box& box);

// Elements that each chunk has when `n` are cut into `k`, but for the last.
std::int64_t chunk_size(std::int64_t n, std::int64_t k);

// Cuts one dim of a box into `k` chunks and leaves the `i`th.
void cut(Box& box, int dim, std::int64_t k, std::int64_t i);

// The part of a tensor of shape `global` on the rank with these coordinates;
// all of it where no axis shards.
Box local_box(
    const Shape& global,
    const Shape& mesh_shape,
    const Placements& placements,
    const Shape& coordinates);

// The same for a global rank; a box of no elements outside of the mesh.
Box local_box(const Shape& global, const DistAttr& attr, int rank);

// What no other rank has less of: the part at coordinates 0.
Shape largest_local_shape(
    const Shape& global, const Shape& mesh_shape, const Placements& placements);

// Whether all ranks hold equally many elements of every dim.
bool is_even(
    const Shape& global, const Shape& mesh_shape, const Placements& placements);

std::int64_t numel(const Shape& shape);

// Strides of a dense tensor of these sizes whose dims are in memory in the same
// order as `like` has them; 0 stays 0.
Shape dense_strides(const Shape& sizes, const Shape& like);

} // namespace argosy::dtensor
