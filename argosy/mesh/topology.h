#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "argosy/mesh/process_mesh.h"

namespace argosy {

// An arrangement of all ranks 0, 1, 2, ... for several kinds of parallelism at
// once: a row-major mesh, whose last axis varies fastest. Does not communicate.
// No torch headers.
class CommunicateTopology {
 public:
  using Names = ProcessMesh::Names;
  using Coordinates = std::map<std::string, std::int64_t>; // by axis name

  // Throws InvalidArgument as ProcessMesh does.
  CommunicateTopology(Names names, ProcessMesh::Shape dims);
  // With the axes data, pipe, sharding, sep, model.
  explicit CommunicateTopology(ProcessMesh::Shape dims);

  const ProcessMesh& mesh() const { return mesh_; }
  const Names& get_hybrid_group_names() const { return mesh_.dim_names(); }
  int world_size() const { return mesh_.size(); }

  bool has(const std::string& axis) const;
  // Returns 1 for a missing axis.
  std::int64_t get_dim(const std::string& axis) const;
  std::int64_t get_dim_size(const std::string& axis) const {
    return get_dim(axis);
  }

  // Returns the rank with these coordinates, which must name every axis.
  int get_rank(const Coordinates& coordinates) const;
  Coordinates get_coord(int rank) const;

  // Returns the ranks at `index` on an axis, ascending.
  std::vector<int> get_axis_list(
      const std::string& axis, std::int64_t index) const;

  // Return all groups of ranks that differ only on one axis, or on several.
  std::vector<std::vector<int>> get_comm_list(const std::string& axis) const {
    return get_fused_ranks({axis});
  }
  std::vector<std::vector<int>> get_fused_ranks(const Names& axes) const;

  // Returns the rank whose coordinates are those of `rank`, except for
  // `changed`.
  int get_rank_from_stage(int rank, const Coordinates& changed) const;

 private:
  ProcessMesh mesh_;
};

} // namespace argosy
