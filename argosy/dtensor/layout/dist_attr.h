#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "argosy/dtensor/layout/placement.h"
#include "argosy/mesh/process_mesh.h"

namespace argosy {

// Where a tensor is: a mesh, and a placement for each of its axes.
struct DistAttr {
  // For each tensor dim the name of the mesh axis that cuts it, or none.
  using ShardingSpecs = std::vector<std::optional<std::string>>;

  ProcessMesh mesh;
  Placements placements;

  // Throws InvalidArgument unless every axis has a placement.
  DistAttr(ProcessMesh mesh_in, Placements placements_in);
  // The older notation. Throws InvalidArgument for names that are unknown or
  // stand twice.
  DistAttr(ProcessMesh mesh_in, const ShardingSpecs& sharding_specs);

  // For each tensor dim the first mesh axis that cuts it, or -1.
  std::vector<int> dims_mapping(int ndim) const;

  bool operator==(const DistAttr&) const = default;
};

// "[S(0), R] on ProcessMesh(...)"
std::string to_string(const DistAttr& attr);
std::ostream& operator<<(std::ostream& out, const DistAttr& attr);

} // namespace argosy
