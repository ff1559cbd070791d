#include "argosy/mesh/hybrid_mesh.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "argosy/comm/group.h"
#include "argosy/common/error.h"
#include "argosy/common/text.h"
#include "argosy/world/world.h"

namespace argosy {

namespace {

// Strategies use Paddle's short names, topologies its long ones.
struct AxisName {
  const char* brief;
  const char* full;
};

constexpr std::array<AxisName, 6> kAxes = {{
    {"dp", "data"},
    {"pp", "pipe"},
    {"sharding", "sharding"},
    {"sep", "sep"},
    {"mp", "model"},
    {"ep", "expert"},
}};

std::string full_name(const std::string& brief) {
  for (const AxisName& axis : kAxes) {
    if (axis.brief == brief) {
      return axis.full;
    }
  }
  throw InvalidArgument(str_format(
      "[mesh.topology] there is no axis \"{}\", expected dp, pp, sharding, "
      "sep, mp or ep",
      brief));
}

std::string brief_name(const std::string& full) {
  const auto* const found = std::ranges::find(kAxes, full, &AxisName::full);
  return found == kAxes.end() ? full : found->brief;
}

// For messages: "dp 2 x pp 1 x mp 3 = 6".
std::string arithmetic(
    const HybridDegrees& degrees,
    const std::vector<std::string>& order,
    std::int64_t product) {
  std::vector<std::string> factors;
  for (const std::string& name : order) {
    factors.push_back(str(name, " ", degrees.of(name)));
  }
  return str(join(factors, " x "), " = ", product);
}

std::int64_t product_of(
    const HybridDegrees& degrees, const std::vector<std::string>& order) {
  std::int64_t product = 1;
  for (const std::string& name : order) {
    product *= degrees.of(name);
  }
  return product;
}

void check_degrees(
    const HybridDegrees& degrees, const std::vector<std::string>& order) {
  for (const AxisName& axis : kAxes) {
    const bool named = std::ranges::find(order, axis.brief) != order.end();
    ARGOSY_CHECK(
        degrees.of(axis.brief) >= 1,
        "[mesh.topology] {}_degree is {}, expected at least 1{}",
        axis.brief,
        degrees.of(axis.brief),
        std::string_view(axis.brief) == "dp" ? ", or -1 for the rest" : "");
    ARGOSY_CHECK(
        named || degrees.of(axis.brief) == 1,
        "[mesh.topology] {}_degree is {}, but the order of axes, {}, does not "
        "name it",
        axis.brief,
        degrees.of(axis.brief),
        join(order, ", "));
  }
}

HybridDegrees with_rest(HybridDegrees degrees, int world_size) {
  if (degrees.dp == -1) {
    degrees.dp = 1;
    const std::int64_t others =
        degrees.pp * degrees.sharding * degrees.sep * degrees.mp * degrees.ep;
    // At least 1: check_degrees() reports the others if they are below 1, and
    // hybrid_topology() reports a product that is not the world size.
    degrees.dp =
        others > 0 ? std::max<std::int64_t>(world_size / others, 1) : 1;
  }
  return degrees;
}

} // namespace

std::int64_t HybridDegrees::of(const std::string& name) const {
  const std::map<std::string, std::int64_t> all{
      {"dp", dp},
      {"pp", pp},
      {"sharding", sharding},
      {"sep", sep},
      {"mp", mp},
      {"ep", ep}};
  full_name(name); // throws for an unknown name
  return all.at(name);
}

CommunicateTopology hybrid_topology(
    const HybridDegrees& given,
    int world_size,
    const std::vector<std::string>& order) {
  // Unknown names and degrees below 1 have messages of their own, so they are
  // checked before the product.
  const HybridDegrees degrees = with_rest(given, world_size);
  std::vector<std::string> names;
  ProcessMesh::Shape dims;
  for (const std::string& name : order) {
    names.push_back(full_name(name));
    dims.push_back(degrees.of(name));
  }
  check_degrees(degrees, order);
  const std::int64_t product = product_of(degrees, order);
  ARGOSY_CHECK(
      product == world_size,
      "[mesh.topology] {}, but the world has {} ranks",
      arithmetic(degrees, order, product),
      world_size);
  return CommunicateTopology(std::move(names), std::move(dims));
}

HybridMesh::HybridMesh(CommunicateTopology topology)
    : topology_(std::move(topology)) {
  const auto world = require_world("mesh.hybrid");
  ARGOSY_CHECK(
      topology_.world_size() == world->size(),
      "[mesh.hybrid] the topology has {} ranks, and the world {}",
      topology_.world_size(),
      world->size());
  mesh_ = rank_mesh(topology_.mesh());
}

int HybridMesh::rank_on(const std::string& axis) const {
  return topology_.has(axis)
      ? static_cast<int>(topology_.mesh().get_rank_by_dim_and_process_id(
            axis, mesh_->rank()))
      : 0;
}

int HybridMesh::size_on(const std::string& axis) const {
  return static_cast<int>(topology_.get_dim(axis));
}

ProcessMesh HybridMesh::mesh() const {
  ProcessMesh stage = topology_.mesh();
  if (topology_.has("pipe")) {
    stage = stage.at("pipe", rank_on("pipe"));
  }
  ProcessMesh::Shape shape;
  ProcessMesh::Names names;
  const auto add = [&](const std::string& name, std::int64_t size) {
    shape.push_back(size);
    names.push_back(name);
  };
  for (int axis = 0; axis < stage.ndim(); ++axis) {
    const auto at = static_cast<std::size_t>(axis);
    const std::string name = brief_name(stage.dim_names()[at]);
    if (stage.shape()[at] > 1 || name == "dp" || name == "mp") {
      add(name, stage.shape()[at]);
    }
  }
  for (const char* always : {"dp", "mp"}) {
    if (std::ranges::find(names, always) == names.end()) {
      add(always, 1);
    }
  }
  return {std::move(shape), stage.process_ids(), std::move(names)};
}

namespace {

// Axes that the topology does not have are left out.
std::vector<int> axis_indices(
    const CommunicateTopology& topology, const std::vector<std::string>& axes) {
  std::vector<int> indices;
  for (const std::string& axis : axes) {
    if (topology.has(axis)) {
      indices.push_back(topology.mesh().axis_index(axis));
    }
  }
  return indices;
}

} // namespace

DataRanks HybridMesh::data_ranks() const {
  // By arithmetic, not by a group: nothing need communicate in it.
  const auto along = axis_indices(topology_, {"data", "sharding", "expert"});
  if (along.empty()) {
    return {};
  }
  const auto ids =
      topology_.mesh().slice_through(mesh_->rank(), along).process_ids();
  const auto own = std::ranges::find(ids, mesh_->rank());
  return {static_cast<int>(own - ids.begin()), static_cast<int>(ids.size())};
}

std::shared_ptr<Group> HybridMesh::group_over(
    const std::vector<std::string>& axes) const {
  const auto along = axis_indices(topology_, axes);
  // No such axis: this rank alone.
  return along.empty() ? mesh_->group_of({mesh_->rank()})
                       : mesh_->group_over(along);
}

int HybridMesh::src_rank_on(const std::string& axis) const {
  return topology_.has(axis)
      ? topology_.get_rank_from_stage(mesh_->rank(), {{axis, 0}})
      : mesh_->rank();
}

int HybridMesh::rank_at_stage(int stage) const {
  return topology_.get_rank_from_stage(mesh_->rank(), {{"pipe", stage}});
}

HybridMesh::Neighbours HybridMesh::stage_neighbours() const {
  const int own = mesh_->rank();
  const int stage = rank_on("pipe");
  const int stages = size_on("pipe");
  Neighbours neighbours{.next_rank = own, .prev_rank = own};
  if (stages == 1) {
    return neighbours;
  }
  // A ring: the last stage is followed by the first. With two stages, next and
  // prev are the same rank.
  neighbours.next_rank = rank_at_stage((stage + 1) % stages);
  neighbours.prev_rank = rank_at_stage((stage + stages - 1) % stages);
  // Both partners must name the same ranks in the same order.
  const auto pair = [&](int other) {
    return mesh_->group_of({std::min(own, other), std::max(own, other)});
  };
  neighbours.next = pair(neighbours.next_rank);
  neighbours.prev = pair(neighbours.prev_rank);
  return neighbours;
}

namespace {

// Attached to the world rather than global: ranks may be threads of one
// process, and each has its own. The mutex is for the threads of one rank.
struct CurrentHybridMesh {
  std::mutex mutex;
  HybridMeshPtr mesh; // guarded by mutex
  // Axes that stood for all ranks while there was no mesh; guarded by mutex.
  std::set<std::string> taken_whole;
};

CurrentHybridMesh& current_of(World& world) {
  return *world.attached<CurrentHybridMesh>(
      [] { return std::make_shared<CurrentHybridMesh>(); });
}

} // namespace

namespace {

// A layer that exists keeps its group, so it cannot follow the mesh any more.
void check_agrees(
    const HybridMesh& mesh, const std::set<std::string>& taken_whole) {
  for (const std::string& axis : taken_whole) {
    ARGOSY_CHECK(
        mesh.size_on(axis) == mesh.topology().world_size(),
        "[mesh.hybrid] a layer or an operation of the {} axis was used before "
        "fleet::init() without a group and took all {} ranks, but with these "
        "degrees the axis has {}: build layers after fleet::init(), or give "
        "them a group",
        axis,
        mesh.topology().world_size(),
        mesh.size_on(axis));
  }
}

} // namespace

void set_current_hybrid_mesh(HybridMeshPtr mesh) {
  const auto world = require_world("mesh.hybrid");
  auto& current = current_of(*world);
  const std::lock_guard lock(current.mutex);
  if (mesh) {
    check_agrees(*mesh, current.taken_whole);
  }
  data_ranks_of(*world)->set(
      mesh ? mesh->data_ranks() : DataRanks{world->rank(), world->size()});
  current.taken_whole.clear();
  current.mesh = std::move(mesh);
}

HybridMeshPtr current_hybrid_mesh() {
  auto& current = current_of(*require_world("mesh.hybrid"));
  const std::lock_guard lock(current.mutex);
  return current.mesh;
}

std::shared_ptr<Group> group_or_axis(
    const std::shared_ptr<Group>& group, const char* axis) {
  if (group) {
    return group;
  }
  if (const auto hybrid = current_hybrid_mesh()) {
    return hybrid->group_over({axis});
  }
  auto& current = current_of(*require_world("mesh.hybrid"));
  const std::lock_guard lock(current.mutex);
  current.taken_whole.insert(axis);
  return get_group(0);
}

} // namespace argosy
