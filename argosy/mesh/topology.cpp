#include "argosy/mesh/topology.h"

#include <algorithm>
#include <set>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/common/text.h"

namespace argosy {

CommunicateTopology::CommunicateTopology(Names names, ProcessMesh::Shape dims)
    : mesh_(ProcessMesh::of_shape(std::move(dims), std::move(names))) {}

CommunicateTopology::CommunicateTopology(ProcessMesh::Shape dims)
    : CommunicateTopology(
          {"data", "pipe", "sharding", "sep", "model"}, std::move(dims)) {}

bool CommunicateTopology::has(const std::string& axis) const {
  const Names& names = get_hybrid_group_names();
  return std::ranges::find(names, axis) != names.end();
}

std::int64_t CommunicateTopology::get_dim(const std::string& axis) const {
  return has(axis) ? mesh_.get_dim_size(axis) : 1;
}

int CommunicateTopology::get_rank(const Coordinates& coordinates) const {
  ProcessMesh::Shape place;
  for (const std::string& name : get_hybrid_group_names()) {
    const auto found = coordinates.find(name);
    ARGOSY_CHECK(
        found != coordinates.end(),
        "[mesh.topology] no coordinate on axis {}, expected one on each of {}",
        name,
        join(get_hybrid_group_names(), ", "));
    place.push_back(found->second);
  }
  // Every axis was found, so a surplus coordinate names an unknown axis.
  ARGOSY_CHECK(
      coordinates.size() == place.size(),
      "[mesh.topology] {} coordinates, expected one on each of {}",
      coordinates.size(),
      join(get_hybrid_group_names(), ", "));
  return mesh_.rank_at(place);
}

CommunicateTopology::Coordinates CommunicateTopology::get_coord(
    int rank) const {
  const auto place = mesh_.coordinates_of(rank);
  ARGOSY_CHECK(
      place,
      "[mesh.topology] there is no rank {} among {}",
      rank,
      mesh_.size());
  Coordinates coordinates;
  for (std::size_t i = 0; i < place->size(); ++i) {
    coordinates[get_hybrid_group_names()[i]] = (*place)[i];
  }
  return coordinates;
}

std::vector<int> CommunicateTopology::get_axis_list(
    const std::string& axis, std::int64_t index) const {
  std::vector<int> ranks = mesh_.at(axis, index).process_ids();
  std::ranges::sort(ranks);
  return ranks;
}

std::vector<std::vector<int>> CommunicateTopology::get_fused_ranks(
    const Names& axes) const {
  std::vector<int> along;
  for (const std::string& axis : axes) {
    along.push_back(mesh_.axis_index(axis));
  }
  // The mesh order, so that groups do not depend on the order of `axes`.
  std::ranges::sort(along);
  std::vector<std::vector<int>> groups;
  std::set<int> seen;
  for (int rank = 0; rank < mesh_.size(); ++rank) {
    // Each rank is in exactly one group; the lowest that is left begins the
    // next.
    if (seen.count(rank) > 0) {
      continue;
    }
    groups.push_back(mesh_.slice_through(rank, along).process_ids());
    seen.insert(groups.back().begin(), groups.back().end());
  }
  return groups;
}

int CommunicateTopology::get_rank_from_stage(
    int rank, const Coordinates& changed) const {
  Coordinates place = get_coord(rank);
  for (const auto& [axis, index] : changed) {
    mesh_.axis_index(axis); // throws for an unknown axis
    place[axis] = index;
  }
  return get_rank(place);
}

} // namespace argosy
