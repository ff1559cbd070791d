#include "argosy/dtensor/layout/dist_attr.h"

#include <ostream>
#include <utility>

#include "argosy/common/error.h"

namespace argosy {

namespace {

Placements placements_of(
    const ProcessMesh& mesh, const DistAttr::ShardingSpecs& specs) {
  Placements placements(static_cast<std::size_t>(mesh.ndim()), Replicate());
  for (std::size_t dim = 0; dim < specs.size(); ++dim) {
    if (!specs[dim]) {
      continue;
    }
    const auto axis = static_cast<std::size_t>(mesh.axis_index(*specs[dim]));
    ARGOSY_CHECK(
        placements[axis].is_replicated(),
        "[dtensor.dist_attr] axis {} shards two dims",
        *specs[dim]);
    placements[axis] = Shard(static_cast<int>(dim));
  }
  return placements;
}

} // namespace

DistAttr::DistAttr(ProcessMesh mesh_in, Placements placements_in)
    : mesh(std::move(mesh_in)), placements(placements_in) {
  ARGOSY_CHECK(
      static_cast<int>(placements.size()) == mesh.ndim(),
      "[dtensor.dist_attr] {} for a mesh of {} axes; one for each is expected",
      placements,
      mesh.ndim());
}

DistAttr::DistAttr(ProcessMesh mesh_in, const ShardingSpecs& sharding_specs)
    : DistAttr(mesh_in, placements_of(mesh_in, sharding_specs)) {}

std::vector<int> DistAttr::dims_mapping(int ndim) const {
  std::vector<int> mapping(static_cast<std::size_t>(ndim), -1);
  for (std::size_t axis = placements.size(); axis-- > 0;) {
    if (placements[axis].is_shard()) {
      mapping.at(static_cast<std::size_t>(placements[axis].dim())) =
          static_cast<int>(axis);
    }
  }
  return mapping;
}

std::string to_string(const DistAttr& attr) {
  return str(attr.placements, " on ", attr.mesh);
}

std::ostream& operator<<(std::ostream& out, const DistAttr& attr) {
  return out << to_string(attr);
}

} // namespace argosy
