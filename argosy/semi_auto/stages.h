#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "argosy/dtensor/layout/placement.h"
#include "argosy/mesh/process_mesh.h"

// ZeRO stages over a data parallel mesh axis. No torch headers.
namespace argosy {

// What is sharded over the axis: nothing (0), optimizer states (1), also
// gradients, as soon as they are computed (2), also parameters (3).
struct ShardingStage {
  int stage = 0;
  std::optional<ProcessMesh::Axis> axis; // nullopt: see sharding_axis()
  // Stage 3: bytes of parameters that are gathered in one call, while those
  // before are in use; 0: each parameter is gathered when it is used. Ids of
  // set_comm_fusion() come before sizes. Pays where cores or a network are idle
  // while ranks compute: on a host whose cores all compute it costs time.
  std::size_t bucket_bytes = 0;
};

inline ShardingStage ShardingStage1(
    std::optional<ProcessMesh::Axis> axis = {}) {
  return {1, std::move(axis)};
}
inline ShardingStage ShardingStage2(
    std::optional<ProcessMesh::Axis> axis = {}) {
  return {2, std::move(axis)};
}
inline ShardingStage ShardingStage3(
    std::optional<ProcessMesh::Axis> axis = {}) {
  return {3, std::move(axis)};
}

namespace semi_auto {

// Returns the axis to shard over: the one that the stage names, else the only
// axis, else the one named "dp". Throws InvalidArgument if none applies.
int sharding_axis(const ShardingStage& stage, const ProcessMesh& mesh);

// Adds sharding over `axis` to a parameter's placements: in the first dim that
// no axis shards yet. Returns them unchanged if there is no such dim or `axis`
// already shards.
Placements sharded_over(
    Placements placements, int axis, const std::vector<std::int64_t>& shape);

} // namespace semi_auto
} // namespace argosy
