#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "argosy/dtensor/layout/dist_attr.h"
#include "argosy/dtensor/layout/layout.h"

// How a parameter is spread over the devices of a pipeline stage, in
// MindSpore's notation. No torch headers.
namespace argosy {

// An item of `parallel_layout_item` of a strategy file. Devices are those of a
// stage, 0, 1, ..., row-major in the device matrix.
struct ParallelLayout {
  dtensor::Shape dev_matrix;
  // For each dim of the tensor the axes of the device matrix that slice it, the
  // outermost first, counted from the right: 0 is the last axis. None: whole.
  std::vector<std::vector<int>> tensor_map;
  std::optional<dtensor::Shape> tensor_shape; // of the whole; old files lack it
  std::int64_t field = 0; // of embeddings whose rows are dealt by field
  // Each replica of a slice keeps a part of its rows (MindSpore's parallel
  // optimizer): `size` replicas share one slice, all of them if it is -1, none
  // if it is 0; their ranks are `step` apart.
  std::int64_t opt_weight_shard_step = 0;
  std::int64_t opt_weight_shard_size = 0;
  // Rows of each slice, if they are not equal.
  std::vector<std::int64_t> param_split_shape;
  std::vector<std::int64_t> indices_offset;
  // Devices in the order of the matrix; empty: 0, 1, 2, ...
  std::vector<int> rank_list;

  // Each dim is sliced by at most one axis; -1: by none.
  static ParallelLayout of(
      dtensor::Shape dev_matrix,
      const std::vector<int>& tensor_map,
      std::optional<dtensor::Shape> tensor_shape = {});
  // A tensor that one device has whole.
  static ParallelLayout unsharded(std::optional<dtensor::Shape> shape = {});

  bool operator==(const ParallelLayout&) const = default;
};

std::string to_string(const ParallelLayout& layout);
std::ostream& operator<<(std::ostream& out, const ParallelLayout& layout);

// The layout of a DTensor whose mesh consists of the ranks of one stage. Throws
// InvalidArgument for Partial placements, and for meshes that are not a block
// of ranks that begins at a multiple of its size.
ParallelLayout layout_of(const dtensor::Shape& shape, const DistAttr& attr);

// The same on more devices: each slice is repeated by so many that `devices`
// result. Replicas are neighbours, or a leftmost axis if not `right`.
ParallelLayout with_repeats(
    ParallelLayout layout, std::int64_t devices, bool right = true);

// The same with the rows of each slice shared by groups of `size` replicas; -1:
// by all. Throws InvalidArgument unless `size` divides their number.
ParallelLayout with_optimizer_shards(
    ParallelLayout layout, std::int64_t size = -1);

namespace compat {

// Throws InvalidArgument, naming the parameter, when parts of the layout do not
// match: axes that do not exist or slice two dims, lists of other lengths, a
// step that does not follow from the matrix.
void check_layout(const ParallelLayout& layout, const std::string& name);

int num_devices(const ParallelLayout& layout);

// Into how many parts the layout cuts each dim, those of the optimizer
// included.
dtensor::Shape num_parts(const ParallelLayout& layout);

// The block of a tensor of `shape` that a device holds. Slices need not be
// equal: each dim is cut as DTensors are. Throws InvalidArgument for layouts
// that have no blocks (`field`).
dtensor::Box box_of(
    const ParallelLayout& layout, const dtensor::Shape& shape, int device);

// The devices that hold the same slice as `device` before the optimizer cuts
// it; ascending.
std::vector<int> replicas_of(const ParallelLayout& layout, int device);

// Groups of the parallel optimizer that a device is in. Without one each device
// gathers alone, and mirrors are its replicas.
struct OptimizerGroups {
  std::vector<int> gather; // together they hold one slice
  std::vector<int> mirror; // they hold the same part

  bool operator==(const OptimizerGroups&) const = default;
};
OptimizerGroups optimizer_groups(const ParallelLayout& layout, int device);

} // namespace compat
} // namespace argosy
