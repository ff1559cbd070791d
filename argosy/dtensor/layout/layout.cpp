#include "argosy/dtensor/layout/layout.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <ostream>

#include "argosy/common/error.h"

namespace argosy::dtensor {

std::int64_t numel(const Shape& shape) {
  return std::accumulate(
      shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::int64_t Box::numel() const {
  return dtensor::numel(size);
}

Box whole(const Shape& shape) {
  return {Shape(shape.size(), 0), shape};
}

Box intersection(const Box& a, const Box& b) {
  Box both = a;
  for (std::size_t d = 0; d < a.size.size(); ++d) {
    const std::int64_t begin = std::max(a.offset[d], b.offset[d]);
    const std::int64_t end =
        std::min(a.offset[d] + a.size[d], b.offset[d] + b.size[d]);
    both.offset[d] = begin;
    both.size[d] = std::max<std::int64_t>(end - begin, 0);
  }
  return both;
}

Box within(const Box& box, const Box& outer) {
  Box moved = box;
  for (std::size_t d = 0; d < box.offset.size(); ++d) {
    moved.offset[d] -= outer.offset[d];
  }
  return moved;
}

std::string to_string(const Box& box) {
  std::string text = "[";
  for (std::size_t d = 0; d < box.size.size(); ++d) {
    text +=
        str(d > 0 ? ", " : "", box.offset[d], ":", box.offset[d] + box.size[d]);
  }
  return text + "]";
}

std::ostream& operator<<(std::ostream& out, const Box& box) {
  return out << to_string(box);
}

std::int64_t chunk_size(std::int64_t n, std::int64_t k) {
  return (n + k - 1) / k;
}

void cut(Box& box, int dim, std::int64_t k, std::int64_t i) {
  const auto d = static_cast<std::size_t>(dim);
  const std::int64_t n = box.size[d];
  const std::int64_t chunk = chunk_size(n, k);
  const std::int64_t begin = std::min(i * chunk, n);
  box.offset[d] += begin;
  box.size[d] = std::min(chunk, n - begin);
}

Box local_box(
    const Shape& global,
    const Shape& mesh_shape,
    const Placements& placements,
    const Shape& coordinates) {
  Box box = whole(global);
  for (std::size_t axis = 0; axis < placements.size(); ++axis) {
    if (placements[axis].is_shard()) {
      cut(box, placements[axis].dim(), mesh_shape[axis], coordinates[axis]);
    }
  }
  return box;
}

Box local_box(const Shape& global, const DistAttr& attr, int rank) {
  const auto coordinates = attr.mesh.coordinates_of(rank);
  if (!coordinates) {
    return {Shape(global.size(), 0), Shape(global.size(), 0)};
  }
  return local_box(global, attr.mesh.shape(), attr.placements, *coordinates);
}

Shape largest_local_shape(
    const Shape& global,
    const Shape& mesh_shape,
    const Placements& placements) {
  const Shape origin(mesh_shape.size(), 0);
  return local_box(global, mesh_shape, placements, origin).size;
}

bool is_even(
    const Shape& global,
    const Shape& mesh_shape,
    const Placements& placements) {
  Shape left = global;
  for (std::size_t axis = 0; axis < placements.size(); ++axis) {
    if (placements[axis].is_shard()) {
      auto& size = left[static_cast<std::size_t>(placements[axis].dim())];
      if (size % mesh_shape[axis] != 0) {
        return false;
      }
      size /= mesh_shape[axis];
    }
  }
  return true;
}

Shape dense_strides(const Shape& sizes, const Shape& like) {
  std::vector<std::size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(
      order, [&](auto a, auto b) { return like[a] > like[b]; });
  Shape strides(sizes.size(), 0);
  std::int64_t next = 1;
  for (auto dim = order.rbegin(); dim != order.rend(); ++dim) {
    if (like[*dim] == 0 && sizes[*dim] > 1) {
      continue; // expanded
    }
    strides[*dim] = next;
    next *= std::max<std::int64_t>(sizes[*dim], 1);
  }
  return strides;
}

} // namespace argosy::dtensor
