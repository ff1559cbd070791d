#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "argosy/mesh/process_mesh.h"

namespace argosy {

// How the ranks of a job are arranged for several kinds of parallelism at once:
// a mesh of all ranks, 0, 1, 2, ... row by row, the last axis the nearest.
// Torch-free; makes no connections.
class CommunicateTopology {
 public:
  using Names = ProcessMesh::Names;
  using Coordinates = std::map<std::string, std::int64_t>; // by axis

  // Throws InvalidArgument as ProcessMesh does.
  CommunicateTopology(Names names, ProcessMesh::Shape dims);
  // The axes data, pipe, sharding, sep, model.
  explicit CommunicateTopology(ProcessMesh::Shape dims);

  const ProcessMesh& mesh() const { return mesh_; }
  const Names& get_hybrid_group_names() const { return mesh_.dim_names(); }
  int world_size() const { return mesh_.size(); }

  bool has(const std::string& axis) const;
  // 1 for an axis that is not there.
  std::int64_t get_dim(const std::string& axis) const;
  std::int64_t get_dim_size(const std::string& axis) const {
    return get_dim(axis);
  }

  // Of the rank that stands there; takes all axes, and no others.
  int get_rank(const Coordinates& coordinates) const;
  Coordinates get_coord(int rank) const;

  // The ranks that stand at `index` of an axis, ascending.
  std::vector<int> get_axis_list(
      const std::string& axis, std::int64_t index) const;

  // All groups of ranks that differ on one axis only, or on some.
  std::vector<std::vector<int>> get_comm_list(const std::string& axis) const {
    return get_fused_ranks({axis});
  }
  std::vector<std::vector<int>> get_fused_ranks(const Names& axes) const;

  // The rank that differs from `rank` where `changed` says.
  int get_rank_from_stage(int rank, const Coordinates& changed) const;

 private:
  ProcessMesh mesh_;
};

} // namespace argosy
