#include "argosy/mesh/process_mesh.h"

#include <algorithm>
#include <numeric>
#include <ostream>
#include <set>
#include <utility>

#include "argosy/common/error.h"

namespace argosy {

namespace {

using Shape = ProcessMesh::Shape;
using Names = ProcessMesh::Names;

std::size_t place(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

std::int64_t product(const Shape& shape) {
  return std::accumulate(
      shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

template <typename T>
std::string list_text(const std::vector<T>& items) {
  std::string text = "[";
  for (const T& item : items) {
    text += str(text.size() > 1 ? ", " : "", item);
  }
  return text + "]";
}

Names default_names(std::size_t ndim) {
  Names names;
  for (std::size_t i = 0; i < ndim; ++i) {
    names.push_back(str("d", i));
  }
  return names;
}

std::vector<int> first_ranks(const Shape& shape) {
  // Negative sizes make no ranks here; check_shape() reports them.
  std::vector<int> ids(place(std::max<std::int64_t>(product(shape), 0)));
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

void check_shape(const Shape& shape, const std::vector<int>& ids) {
  ARGOSY_CHECK(
      !shape.empty() && shape.size() <= ProcessMesh::kMostAxes,
      "[mesh] a mesh of {} axes; 1 to {} are possible",
      shape.size(),
      ProcessMesh::kMostAxes);
  for (const std::int64_t size : shape) {
    ARGOSY_CHECK(size > 0, "[mesh] shape {} has no ranks", list_text(shape));
  }
  ARGOSY_CHECK(
      product(shape) == static_cast<std::int64_t>(ids.size()),
      "[mesh] shape {} has {} elements for {} ranks",
      list_text(shape),
      product(shape),
      ids.size());
}

void check_ids(const std::vector<int>& ids) {
  std::set<int> seen;
  for (const int id : ids) {
    ARGOSY_CHECK(id >= 0, "[mesh] rank {} is negative", id);
    ARGOSY_CHECK(seen.insert(id).second, "[mesh] rank {} occurs twice", id);
  }
}

void check_names(const Names& names, std::size_t ndim) {
  ARGOSY_CHECK(
      names.size() == ndim, "[mesh] {} names for {} axes", names.size(), ndim);
  const std::set<std::string> distinct(names.begin(), names.end());
  ARGOSY_CHECK(
      distinct.size() == ndim && !distinct.contains(""),
      "[mesh] names of axes must differ and not be empty: ",
      list_text(names));
}

} // namespace

ProcessMesh ProcessMesh::of_shape(Shape shape, Names names) {
  std::vector<int> ids = first_ranks(shape);
  return {std::move(shape), std::move(ids), std::move(names)};
}

ProcessMesh ProcessMesh::of_ranks(
    std::vector<int> process_ids, std::string name) {
  const auto size = static_cast<std::int64_t>(process_ids.size());
  return {{size}, std::move(process_ids), {std::move(name)}};
}

ProcessMesh::ProcessMesh(Shape shape, std::vector<int> process_ids, Names names)
    : rep_(nullptr) {
  // All checks come first: a mesh cannot change once `rep_` is made.
  check_shape(shape, process_ids);
  check_ids(process_ids);
  if (names.empty()) {
    names = default_names(shape.size());
  }
  check_names(names, shape.size());
  rep_ = std::make_shared<const Rep>(
      Rep{std::move(shape), std::move(process_ids), std::move(names)});
}

std::int64_t ProcessMesh::get_dim_size(const Axis& axis) const {
  return shape()[at_axis(axis)];
}

int ProcessMesh::axis_index(const Axis& axis) const {
  if (const auto* name = std::get_if<std::string>(&axis.value())) {
    const auto found = std::ranges::find(dim_names(), *name);
    ARGOSY_CHECK(
        found != dim_names().end(),
        "[mesh] there is no axis {}; the mesh has {}",
        *name,
        list_text(dim_names()));
    return static_cast<int>(found - dim_names().begin());
  }
  const int given = std::get<int>(axis.value());
  const int index = given < 0 ? given + ndim() : given;
  ARGOSY_CHECK(
      index >= 0 && index < ndim(),
      "[mesh] there is no axis {}; the mesh has {}",
      given,
      ndim());
  return index;
}

std::size_t ProcessMesh::at_axis(const Axis& axis) const {
  return static_cast<std::size_t>(axis_index(axis));
}

int ProcessMesh::index_of(int rank) const {
  const auto& ids = process_ids();
  const auto found = std::ranges::find(ids, rank);
  return found == ids.end() ? -1 : static_cast<int>(found - ids.begin());
}

std::optional<Shape> ProcessMesh::coordinates_of(int rank) const {
  const int index = index_of(rank);
  if (index < 0) {
    return std::nullopt;
  }
  return coordinates_at(index);
}

Shape ProcessMesh::coordinates_at(int index) const {
  Shape coordinates(shape().size());
  // Row-major: the last axis varies fastest.
  std::int64_t rest = index;
  for (std::size_t axis = shape().size(); axis-- > 0;) {
    coordinates[axis] = rest % shape()[axis];
    rest /= shape()[axis];
  }
  return coordinates;
}

std::int64_t ProcessMesh::get_rank_by_dim_and_process_id(
    const Axis& axis, int process_id) const {
  const std::size_t index = at_axis(axis);
  const auto coordinates = coordinates_of(process_id);
  return coordinates ? (*coordinates)[index] : -1;
}

int ProcessMesh::rank_at(const Shape& coordinates) const {
  ARGOSY_CHECK(
      coordinates.size() == shape().size(),
      "[mesh] coordinates {} in a mesh of {} axes",
      list_text(coordinates),
      ndim());
  // Row-major, the inverse of coordinates_at().
  std::int64_t index = 0;
  for (std::size_t axis = 0; axis < coordinates.size(); ++axis) {
    ARGOSY_CHECK(
        coordinates[axis] >= 0 && coordinates[axis] < shape()[axis],
        "[mesh] coordinates {} are outside of the shape {}",
        list_text(coordinates),
        list_text(shape()));
    index = index * shape()[axis] + coordinates[axis];
  }
  return process_ids()[place(index)];
}

ProcessMesh ProcessMesh::permuted(const std::vector<Axis>& axes) const {
  std::vector<std::size_t> order;
  for (const Axis& axis : axes) {
    order.push_back(at_axis(axis));
  }
  const std::set<std::size_t> distinct(order.begin(), order.end());
  ARGOSY_CHECK(
      distinct.size() == shape().size() && order.size() == shape().size(),
      "[mesh.permuted] every axis of {} must be named once",
      list_text(dim_names()));
  Shape new_shape;
  Names new_names;
  for (const std::size_t axis : order) {
    new_shape.push_back(shape()[axis]);
    new_names.push_back(dim_names()[axis]);
  }
  std::vector<int> ids;
  // Walks the new mesh in row-major order: its coordinate i is the one of this
  // mesh on axis order[i].
  const ProcessMesh places = of_shape(new_shape);
  for (int index = 0; index < size(); ++index) {
    const Shape there = places.coordinates_at(index);
    Shape here(there.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
      here[order[i]] = there[i];
    }
    ids.push_back(rank_at(here));
  }
  return {new_shape, std::move(ids), std::move(new_names)};
}

ProcessMesh ProcessMesh::get_mesh_with_dim(
    const Axis& axis, std::optional<std::int64_t> index) const {
  const int first = axis_index(axis);
  std::vector<Axis> order{first};
  for (int other = 0; other < ndim(); ++other) {
    if (other != first) {
      order.emplace_back(other);
    }
  }
  const ProcessMesh moved = permuted(order);
  return index ? moved.at(0, *index) : moved;
}

ProcessMesh ProcessMesh::at(const Axis& axis, std::int64_t index) const {
  const int fixed = axis_index(axis);
  std::vector<int> others;
  for (int other = 0; other < ndim(); ++other) {
    if (other != fixed) {
      others.push_back(other);
    }
  }
  // Any rank with that index identifies the sub-mesh.
  Shape origin(shape().size(), 0);
  origin[static_cast<std::size_t>(fixed)] = index;
  return slice_through(rank_at(origin), others);
}

// The ranks come in row-major order of `axes` as they are given, so {0, 1} and
// {1, 0} list the same ranks in different orders.
ProcessMesh ProcessMesh::slice_through(
    int rank, const std::vector<int>& axes) const {
  auto here = coordinates_of(rank);
  ARGOSY_CHECK(here, "[mesh] rank {} is not in {}", rank, *this);
  // A mesh has at least one axis, so a single rank gets one of size 1.
  if (axes.empty()) {
    return {{1}, {rank}, {"d0"}};
  }
  Shape new_shape;
  Names new_names;
  for (const int axis : axes) {
    new_shape.push_back(shape()[at_axis(axis)]);
    new_names.push_back(dim_names()[at_axis(axis)]);
  }
  const ProcessMesh places = of_shape(new_shape);
  std::vector<int> ids;
  for (int index = 0; index < places.size(); ++index) {
    // `here` keeps the coordinates of `rank` on all other axes.
    const Shape there = places.coordinates_at(index);
    for (std::size_t i = 0; i < axes.size(); ++i) {
      (*here)[at_axis(axes[i])] = there[i];
    }
    ids.push_back(rank_at(*here));
  }
  return {new_shape, std::move(ids), std::move(new_names)};
}

// Copies share their representation, so most comparisons are one of pointers.
bool ProcessMesh::operator==(const ProcessMesh& other) const {
  return rep_ == other.rep_ ||
      (shape() == other.shape() && process_ids() == other.process_ids());
}

std::string to_string(const ProcessMesh& mesh) {
  return str_format(
      "ProcessMesh(shape={}, process_ids={}, dim_names={})",
      list_text(mesh.shape()),
      list_text(mesh.process_ids()),
      list_text(mesh.dim_names()));
}

std::ostream& operator<<(std::ostream& out, const ProcessMesh& mesh) {
  return out << to_string(mesh);
}

} // namespace argosy
