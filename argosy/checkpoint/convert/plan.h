#pragma once

#include <cstdint>
#include <iosfwd>
#include <vector>

#include "argosy/checkpoint/convert/name_rules.h"
#include "argosy/checkpoint/tensor_info.h"

// What goes into which file. Pure.
namespace argosy::checkpoint {

// Divides tensors, in their order, into files of at most `most_bytes`; a tensor
// that is larger gets a file of its own. Returns indices by file; one empty
// file if there are no tensors.
std::vector<std::vector<std::size_t>> plan_shards(
    const std::vector<TensorInfo>& tensors, std::uint64_t most_bytes);

// A box of a tensor, which becomes a piece.
struct PlannedPiece {
  std::size_t tensor = 0;
  Box box;

  bool operator==(const PlannedPiece&) const = default;
};
std::ostream& operator<<(std::ostream& out, const PlannedPiece& piece);

// Divides tensors over ranks. `dims` says along which dim a tensor is cut, in
// chunks as DTensors have them ("\.weight$ -> 0"); those that no rule names
// stay whole, and go to the rank that has least so far. Tensors of one rank
// ("rank/3/...") go to that rank. Returns pieces by rank; empty ones are left
// out. Throws InvalidArgument for a dim that a tensor does not have.
std::vector<std::vector<PlannedPiece>> plan_split(
    const std::vector<TensorInfo>& tensors, int ranks, const NameRules& dims);

} // namespace argosy::checkpoint
