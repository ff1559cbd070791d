#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "argosy/dtensor/placement.h"
#include "argosy/mesh/process_mesh.h"

// How the ranks of a data-parallel axis share what training keeps. Torch-free.
namespace argosy {

// What is cut over the axis: nothing (0), the states of the optimizer (1), and
// gradients as soon as they are there (2), and the parameters themselves (3).
struct ShardingStage {
  int stage = 0;
  std::optional<ProcessMesh::Axis> axis; // none: see sharding_axis()
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

// The axis that a stage cuts over: the one it names; else the only one, or the
// one called "dp". Throws InvalidArgument when that does not tell.
int sharding_axis(const ShardingStage& stage, const ProcessMesh& mesh);

// Where a parameter's states lie when `axis` shares them: on that axis, in the
// first dim that no axis cuts. As it is when there is no such dim, or the axis
// cuts already.
Placements sharded_over(
    Placements placements, int axis, const std::vector<std::int64_t>& shape);

} // namespace semi_auto
} // namespace argosy
