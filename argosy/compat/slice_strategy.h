#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "argosy/dtensor/layout/placement.h"
#include "argosy/mesh/process_mesh.h"

// Strategies as numbers of slices per dim, in MindSpore's notation: ((2, 1),
// (1, 4)). No torch headers.
namespace argosy {

// For each operand, the number of slices of each dim.
using OpStrategy = std::vector<std::vector<std::int64_t>>;

// Returns the placements of an op's operands. `letters` name their dims as
// einsum does: {"mk", "kn"} for a matrix product; dims with the same letter are
// sliced alike. In the order of their appearance, letters take the first mesh
// axis of the size that they need, or the fewest axes whose product it is. An
// axis that no letter takes replicates.
//
//   // on a mesh of 2 x 4: [S(0), R] and [R, S(1)]
//   strategy_placements(mesh, {"mk", "kn"}, {{2, 1}, {1, 4}});
//
// Throws InvalidArgument when numbers of dims or slices do not match, or when
// the remaining mesh axes do not fit.
std::vector<Placements> strategy_placements(
    const ProcessMesh& mesh,
    const std::vector<std::string>& letters,
    const OpStrategy& strategy);

// MindSpore's dataset_strategy: returns the placements of a network's inputs,
// for plan_loading() and shard_dataloader().
//
//   // the width of the images on 8 ranks, and the labels with them
//   dataset_placements(mesh, {{1, 1, 1, 8}, {8}});
//
// Throws InvalidArgument, as MindSpore does, when an input has several dims
// that are sliced, when sliced inputs have different numbers of slices, when
// none of those with the most dims is sliced though another one is, and as
// above.
std::vector<Placements> dataset_placements(
    const ProcessMesh& mesh, const OpStrategy& strategy);

} // namespace argosy
