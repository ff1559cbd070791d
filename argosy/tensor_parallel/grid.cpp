#include "argosy/tensor_parallel/grid.h"

#include <ATen/core/Tensor.h>

#include <ostream>
#include <ranges>

#include "argosy/comm/functional.h"
#include "argosy/common/error.h"
#include "argosy/mesh/hybrid_mesh.h"
#include "argosy/mesh/rank_mesh.h"
#include "argosy/tensor_parallel/grid_cuts.h"
#include "argosy/trace/recorded_call.h"

namespace argosy {

namespace {

// Z is the slowest axis, so that the ranks of any two axes are in the order of
// their cuts.
ProcessMesh mesh_of(
    const std::vector<std::int64_t>& shape, const GroupPtr& group) {
  ARGOSY_CHECK(
      shape.size() == 2 || shape.size() == 3,
      "[tensor_parallel.grid] a shape of {} dims, expected 2 or 3: x, y, z",
      shape.size());
  std::int64_t count = 1;
  for (const std::int64_t size : shape) {
    ARGOSY_CHECK(
        size > 0,
        "[tensor_parallel.grid] an axis of {} ranks, expected at least 1",
        size);
    count *= size;
  }
  ARGOSY_CHECK(
      count == group->nranks(),
      "[tensor_parallel.grid] a grid of {} ranks for a group of {}, expected "
      "as many",
      count,
      group->nranks());
  return {
      {shape.size() == 3 ? shape[2] : 1, shape[0], shape[1]},
      group->ranks(),
      {"z", "x", "y"}};
}

// Not by name: rank_mesh() may return a mesh of the same ranks with other
// names.
int place_of(const std::string& axis) {
  const std::string all = "zxy";
  const auto place = axis.size() == 1 ? all.find(axis) : std::string::npos;
  ARGOSY_CHECK(
      place != std::string::npos,
      "[tensor_parallel.grid] axis {}, expected x, y or z",
      axis);
  return static_cast<int>(place);
}

tensor_parallel::Cuts cuts_for(
    const TensorGrid& grid,
    const at::Tensor& tensor,
    GridLayout layout,
    std::int64_t unit) {
  ARGOSY_CHECK(
      tensor.dim() >= 2,
      "[tensor_parallel.grid] a tensor {}, expected [rows, ..., features]",
      tensor.sizes());
  ARGOSY_CHECK(
      unit > 0 && tensor.size(-1) % unit == 0,
      "[tensor_parallel.grid] units of {} for a tensor {}, expected a number "
      "that divides its last dim",
      unit,
      tensor.sizes());
  return tensor_parallel::activation_cuts(
      tensor_parallel::axes_of(grid, layout), tensor.dim() - 1);
}

// Rows are dim 0, features the last of at least two.
std::atomic<bool>& flag_of(
    tensor_parallel::GridEvenness& evenness, const tensor_parallel::Cut& cut) {
  return cut.dim == 0 ? evenness.rows : evenness.features;
}

// One op for a recording: the sizes are those of each run.
at::Tensor concat_uneven(
    const at::Tensor& part, const tensor_parallel::Cut& cut) {
  const auto call = [cut](const Tensors& in) {
    const std::int64_t size =
        tensor_parallel::sum_over(in[0].size(cut.dim), cut.group);
    return Tensors{functional::c_concat(in[0], cut.group, cut.dim, size)};
  };
  return trace::recorded_call({part}, call)[0];
}

} // namespace

std::ostream& operator<<(std::ostream& out, GridLayout layout) {
  return out << (layout == GridLayout::Outer ? "Outer" : "Inner");
}

TensorGrid::TensorGrid(
    const std::vector<std::int64_t>& shape, const GroupPtr& group)
    : shape_(shape),
      mesh_(rank_mesh(mesh_of(shape, group_or_axis(group, "model")))),
      evenness_(std::make_shared<tensor_parallel::GridEvenness>()) {}

std::shared_ptr<tensor_parallel::GridEvenness> evenness_of(
    const TensorGrid& grid) {
  return grid.evenness_;
}

void TensorGrid::expect_uneven() const {
  evenness_->rows = false;
  evenness_->features = false;
}

GroupPtr TensorGrid::group_over(const std::vector<std::string>& axes) const {
  std::vector<int> places;
  for (const std::string& axis : axes) {
    places.push_back(place_of(axis));
  }
  return mesh_->group_over(places);
}

// Units get a dim of their own while features are cut.
at::Tensor TensorGrid::part(
    const at::Tensor& whole, GridLayout layout, std::int64_t unit) const {
  const tensor_parallel::Cuts cuts = cuts_for(*this, whole, layout, unit);
  at::Tensor part = tensor_parallel::by_unit(whole, whole.dim() - 1, unit);
  const std::vector<std::int64_t> sizes = part.sizes().vec();
  for (const tensor_parallel::Cut& cut : cuts) {
    const std::int64_t size = sizes[static_cast<std::size_t>(cut.dim)];
    if (!tensor_parallel::divides(size, cut.dim, cuts)) {
      flag_of(*evenness_, cut) = false;
    }
    part = functional::c_split(part, cut.group, cut.dim);
  }
  return unit == 1 ? part : part.flatten(-2);
}

at::Tensor TensorGrid::whole(
    const at::Tensor& part, GridLayout layout, std::int64_t unit) const {
  const tensor_parallel::Cuts cuts = cuts_for(*this, part, layout, unit);
  at::Tensor whole = tensor_parallel::by_unit(part, part.dim() - 1, unit);
  for (const tensor_parallel::Cut& cut : cuts | std::views::reverse) {
    whole = flag_of(*evenness_, cut)
        ? functional::c_concat(whole, cut.group, cut.dim)
        : concat_uneven(whole, cut);
  }
  return unit == 1 ? whole : whole.flatten(-2);
}

} // namespace argosy
