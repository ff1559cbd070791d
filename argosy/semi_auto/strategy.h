#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "argosy/dtensor/placement.h"
#include "argosy/mesh/process_mesh.h"

// Strategies as "slices per dim", as MindSpore writes them: ((2, 1), (1, 4)).
// Torch-free.
namespace argosy {

// For each operand, into how many slices each of its dims is cut.
using OpStrategy = std::vector<std::vector<std::int64_t>>;

// Where the operands of an op lie, of which `letters` name the dims, as einsum
// does: {"mk", "kn"} for a product. Dims of one letter are cut alike. Letters
// take axes of the mesh in the order in which they appear: the first one of the
// size that they need, or the fewest that make it. An axis that none takes
// replicates.
//
//   // on a mesh of 2 x 4: [S(0), R] and [R, S(1)]
//   strategy_placements(mesh, {"mk", "kn"}, {{2, 1}, {1, 4}});
//
// Throws InvalidArgument when the numbers of dims or slices do not go together,
// or the mesh has no axes of such sizes left.
std::vector<Placements> strategy_placements(
    const ProcessMesh& mesh,
    const std::vector<std::string>& letters,
    const OpStrategy& strategy);

} // namespace argosy
