#include "argosy/compat/parallel_layout.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <ostream>
#include <set>

#include "argosy/common/error.h"

namespace argosy {

using dtensor::Box;
using dtensor::Shape;

namespace {

// The axis from the left of one that is counted from the right.
std::size_t from_left(const ParallelLayout& layout, int axis) {
  return layout.dev_matrix.size() - 1 - static_cast<std::size_t>(axis);
}

std::int64_t slices_of_dim(const ParallelLayout& layout, std::size_t dim) {
  std::int64_t slices = 1;
  for (const int axis : layout.tensor_map[dim]) {
    slices *= layout.dev_matrix[from_left(layout, axis)];
  }
  return slices;
}

std::int64_t num_replicas(const ParallelLayout& layout) {
  std::int64_t slices = 1;
  for (std::size_t dim = 0; dim < layout.tensor_map.size(); ++dim) {
    slices *= slices_of_dim(layout, dim);
  }
  return dtensor::numel(layout.dev_matrix) / slices;
}

// How many replicas share a slice; 1: each has all of it.
std::int64_t optimizer_shards(const ParallelLayout& layout) {
  const std::int64_t size = layout.opt_weight_shard_size;
  if (size == 0 || layout.opt_weight_shard_step == 0) {
    return 1;
  }
  const std::int64_t replicas = num_replicas(layout);
  return size < 0 ? replicas : std::min(size, replicas);
}

// Where a device is in the matrix.
Shape coordinates_of_device(const ParallelLayout& layout, int device) {
  std::int64_t index = device;
  if (!layout.rank_list.empty()) {
    index =
        std::ranges::find(layout.rank_list, device) - layout.rank_list.begin();
  }
  Shape coordinates(layout.dev_matrix.size());
  for (std::size_t i = coordinates.size(); i-- > 0;) {
    coordinates[i] = index % layout.dev_matrix[i];
    index /= layout.dev_matrix[i];
  }
  return coordinates;
}

std::vector<bool> sliced_axes(const ParallelLayout& layout) {
  std::vector<bool> sliced(layout.dev_matrix.size(), false);
  for (const auto& axes : layout.tensor_map) {
    for (const int axis : axes) {
      sliced[from_left(layout, axis)] = true;
    }
  }
  return sliced;
}

void cut_unevenly(
    Box& box, const std::vector<std::int64_t>& rows, Shape where) {
  const auto slice = static_cast<std::size_t>(where[0]);
  box.offset[0] = std::accumulate(
      rows.begin(),
      rows.begin() + static_cast<std::ptrdiff_t>(slice),
      std::int64_t{0});
  box.size[0] = rows[slice];
}

std::vector<std::vector<int>> groups_of_axes(const std::vector<int>& map) {
  std::vector<std::vector<int>> groups;
  groups.reserve(map.size());
  for (const int axis : map) {
    groups.push_back(axis == -1 ? std::vector<int>{} : std::vector<int>{axis});
  }
  return groups;
}

std::string joined(const auto& items) {
  std::string text = "[";
  for (const auto& item : items) {
    text += str(text.size() > 1 ? ", " : "", item);
  }
  return text + "]";
}

std::int64_t step_of_groups(const ParallelLayout& layout) {
  const auto group = compat::optimizer_groups(layout, 0).gather;
  const auto distances = static_cast<std::int64_t>(group.size()) - 1;
  return distances == 0 ? 1 : (group.back() - group.front()) / distances;
}

} // namespace

ParallelLayout ParallelLayout::of(
    Shape dev_matrix,
    const std::vector<int>& tensor_map,
    std::optional<Shape> tensor_shape) {
  ParallelLayout layout;
  layout.dev_matrix = std::move(dev_matrix);
  layout.tensor_map = groups_of_axes(tensor_map);
  layout.tensor_shape = std::move(tensor_shape);
  compat::check_layout(layout, "a parameter");
  return layout;
}

ParallelLayout ParallelLayout::unsharded(std::optional<Shape> shape) {
  ParallelLayout layout;
  layout.dev_matrix = {1};
  layout.tensor_map.resize(shape ? shape->size() : 0);
  layout.tensor_shape = std::move(shape);
  return layout;
}

std::string to_string(const ParallelLayout& layout) {
  std::string map;
  for (const auto& axes : layout.tensor_map) {
    map += map.empty() ? "" : ", ";
    map += axes.empty() ? "-1" : axes.size() == 1 ? str(axes[0]) : joined(axes);
  }
  std::string text = joined(layout.dev_matrix) + " map [" + map + "]";
  if (layout.tensor_shape) {
    text += " shape " + joined(*layout.tensor_shape);
  }
  if (layout.opt_weight_shard_size != 0) {
    text +=
        str(" optimizer shards ",
            layout.opt_weight_shard_size,
            " step ",
            layout.opt_weight_shard_step);
  }
  return text;
}

std::ostream& operator<<(std::ostream& out, const ParallelLayout& layout) {
  return out << to_string(layout);
}

ParallelLayout layout_of(const Shape& shape, const DistAttr& attr) {
  const std::vector<int>& ids = attr.mesh.process_ids();
  const auto [least, most] = std::ranges::minmax(ids);
  const int size = attr.mesh.size();
  ARGOSY_CHECK(
      most - least + 1 == size && least % size == 0,
      "[strategy] {}: a stage is a block of ranks that begins at a multiple of "
      "its size",
      attr.mesh);
  ARGOSY_CHECK(
      !has_partial(attr.placements),
      "[strategy] {} has no slices: reduce the tensor before",
      attr);
  const Placements placements = normalized(
      attr.placements, static_cast<int>(shape.size()), attr.mesh.ndim());
  ParallelLayout layout;
  layout.dev_matrix = attr.mesh.shape();
  layout.tensor_map.resize(shape.size());
  layout.tensor_shape = shape;
  for (std::size_t axis = 0; axis < placements.size(); ++axis) {
    if (placements[axis].is_shard()) {
      layout.tensor_map[static_cast<std::size_t>(placements[axis].dim())]
          .push_back(static_cast<int>(placements.size() - 1 - axis));
    }
  }
  for (const int id : ids) {
    layout.rank_list.push_back(id - least);
  }
  if (std::ranges::is_sorted(layout.rank_list)) {
    layout.rank_list.clear();
  }
  return layout;
}

ParallelLayout with_repeats(
    ParallelLayout layout, std::int64_t devices, bool right) {
  const std::int64_t now = dtensor::numel(layout.dev_matrix);
  ARGOSY_CHECK(
      devices >= now && devices % now == 0 && layout.rank_list.empty(),
      "[strategy] {} on {} devices, expected a multiple of {}",
      layout,
      devices,
      now);
  if (devices == now) {
    return layout;
  }
  layout.dev_matrix.insert(
      right ? layout.dev_matrix.end() : layout.dev_matrix.begin(),
      devices / now);
  for (auto& axes : layout.tensor_map) {
    for (int& axis : axes) {
      axis += right ? 1 : 0;
    }
  }
  return layout;
}

ParallelLayout with_optimizer_shards(ParallelLayout layout, std::int64_t size) {
  const std::int64_t replicas = num_replicas(layout);
  ARGOSY_CHECK(
      size == -1 || (size >= 1 && (size >= replicas || replicas % size == 0)),
      "[strategy] optimizer shards of {} replicas for {}, expected -1 or a "
      "divisor of {}",
      size,
      layout,
      replicas);
  layout.opt_weight_shard_size = size;
  layout.opt_weight_shard_step = 1; // on, so that the groups exist
  layout.opt_weight_shard_step = step_of_groups(layout);
  return layout;
}

namespace compat {

int num_devices(const ParallelLayout& layout) {
  return static_cast<int>(dtensor::numel(layout.dev_matrix));
}

Shape num_parts(const ParallelLayout& layout) {
  Shape parts;
  for (std::size_t dim = 0; dim < layout.tensor_map.size(); ++dim) {
    parts.push_back(slices_of_dim(layout, dim));
  }
  if (!parts.empty()) {
    parts[0] *= optimizer_shards(layout);
  }
  return parts;
}

Box box_of(const ParallelLayout& layout, const Shape& shape, int device) {
  ARGOSY_CHECK(
      layout.field == 0,
      "[strategy] rows that are dealt by field ({}) are not blocks of a tensor",
      layout.field);
  ARGOSY_CHECK(
      shape.size() == layout.tensor_map.size(),
      "[strategy] shape {} for {}, expected {} dims",
      joined(shape),
      layout,
      layout.tensor_map.size());
  const Shape coordinates = coordinates_of_device(layout, device);
  Box box = dtensor::whole(shape);
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    for (const int axis : layout.tensor_map[dim]) {
      const std::size_t at = from_left(layout, axis);
      if (dim == 0 && !layout.param_split_shape.empty()) {
        cut_unevenly(box, layout.param_split_shape, {coordinates[at]});
      } else {
        cut(box, static_cast<int>(dim), layout.dev_matrix[at], coordinates[at]);
      }
    }
  }
  const std::vector<int> group = optimizer_groups(layout, device).gather;
  if (group.size() > 1 && !shape.empty()) {
    const auto index = std::ranges::find(group, device) - group.begin();
    cut(box, 0, static_cast<std::int64_t>(group.size()), index);
  }
  return box;
}

std::vector<int> replicas_of(const ParallelLayout& layout, int device) {
  const std::vector<bool> sliced = sliced_axes(layout);
  const Shape mine = coordinates_of_device(layout, device);
  std::vector<int> replicas;
  for (int other = 0; other < num_devices(layout); ++other) {
    const Shape theirs = coordinates_of_device(layout, other);
    bool same = true;
    for (std::size_t axis = 0; axis < mine.size(); ++axis) {
      same = same && (!sliced[axis] || mine[axis] == theirs[axis]);
    }
    if (same) {
      replicas.push_back(other);
    }
  }
  return replicas;
}

OptimizerGroups optimizer_groups(const ParallelLayout& layout, int device) {
  const std::vector<int> replicas = replicas_of(layout, device);
  const auto shards = static_cast<std::size_t>(optimizer_shards(layout));
  const auto index = static_cast<std::size_t>(
      std::ranges::find(replicas, device) - replicas.begin());
  OptimizerGroups groups;
  for (std::size_t i = 0; i < replicas.size(); ++i) {
    if (i / shards == index / shards) {
      groups.gather.push_back(replicas[i]);
    }
    if (i % shards == index % shards) {
      groups.mirror.push_back(replicas[i]);
    }
  }
  return groups;
}

namespace {

void check_axes(const ParallelLayout& layout, const std::string& name) {
  std::set<int> used;
  for (const auto& axes : layout.tensor_map) {
    for (const int axis : axes) {
      ARGOSY_CHECK(
          axis >= 0 &&
              static_cast<std::size_t>(axis) < layout.dev_matrix.size(),
          "[strategy] {}: axis {} in the tensor map, expected -1 to {}",
          name,
          axis,
          layout.dev_matrix.size() - 1);
      ARGOSY_CHECK(
          used.insert(axis).second,
          "[strategy] {}: axis {} slices two dims",
          name,
          axis);
    }
  }
}

void check_rows(const ParallelLayout& layout, const std::string& name) {
  const auto& rows = layout.param_split_shape;
  if (rows.empty()) {
    return;
  }
  ARGOSY_CHECK(
      !layout.tensor_map.empty() && layout.tensor_map[0].size() == 1 &&
          slices_of_dim(layout, 0) == static_cast<std::int64_t>(rows.size()),
      "[strategy] {}: param_split_shape has {} slices, expected as many as "
      "one axis slices dim 0 into",
      name,
      rows.size());
  const auto sum = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
  ARGOSY_CHECK(
      std::ranges::min(rows) >= 0 &&
          (!layout.tensor_shape || sum == (*layout.tensor_shape)[0]),
      "[strategy] {}: param_split_shape has {} rows, expected those of {}",
      name,
      sum,
      layout);
}

void check_optimizer(const ParallelLayout& layout, const std::string& name) {
  const std::int64_t shards = optimizer_shards(layout);
  if (shards == 1) {
    return;
  }
  ARGOSY_CHECK(
      num_replicas(layout) % shards == 0,
      "[strategy] {}: opt_weight_shard_size {}, expected a divisor of the {} "
      "replicas",
      name,
      layout.opt_weight_shard_size,
      num_replicas(layout));
  ARGOSY_CHECK(
      layout.opt_weight_shard_step == step_of_groups(layout),
      "[strategy] {}: opt_weight_shard_step {}, expected {} for {}",
      name,
      layout.opt_weight_shard_step,
      step_of_groups(layout),
      layout);
}

void check_ranks(const ParallelLayout& layout, const std::string& name) {
  std::vector<int> ranks = layout.rank_list;
  std::ranges::sort(ranks);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    ARGOSY_CHECK(
        ranks.size() == static_cast<std::size_t>(num_devices(layout)) &&
            ranks[i] == static_cast<int>(i),
        "[strategy] {}: rank_list {}, expected each of the {} devices once",
        name,
        joined(layout.rank_list),
        num_devices(layout));
  }
}

} // namespace

void check_layout(const ParallelLayout& layout, const std::string& name) {
  std::int64_t devices = 1;
  for (const std::int64_t size : layout.dev_matrix) {
    ARGOSY_CHECK(
        size >= 1 && (devices *= size) <= 1 << 20,
        "[strategy] {}: device matrix {}, expected sizes from 1 and at most "
        "2^20 devices",
        name,
        joined(layout.dev_matrix));
  }
  ARGOSY_CHECK(
      !layout.dev_matrix.empty(), "[strategy] {}: no device matrix", name);
  ARGOSY_CHECK(
      !layout.tensor_shape ||
          (layout.tensor_shape->size() == layout.tensor_map.size() &&
           std::ranges::all_of(
               *layout.tensor_shape, [](auto size) { return size >= 0; })),
      "[strategy] {}: {}, expected a size for each of {} dims",
      name,
      layout,
      layout.tensor_map.size());
  check_axes(layout, name);
  check_rows(layout, name);
  check_ranks(layout, name);
  check_optimizer(layout, name);
}

} // namespace compat
} // namespace argosy
