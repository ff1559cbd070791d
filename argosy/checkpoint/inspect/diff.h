#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "argosy/checkpoint/cipher.h"
#include "argosy/checkpoint/convert/convert.h"
#include "argosy/checkpoint/import/tensor_set.h"

namespace argosy::checkpoint {

// How much is read to compare tensors.
enum class DiffDepth {
  Roots,  // nothing, where both have roots
  Blocks, // tensors whose roots differ: in which blocks
  Values, // tensors whose roots differ: how many elements, and by how much
};

struct TensorDiff {
  std::string name;
  std::string what; // if types or shapes differ, or one has no such tensor
  // Elements [begin, end) of blocks that differ, adjacent ones joined.
  std::vector<std::pair<std::int64_t, std::int64_t>> blocks;
  // Of DiffDepth::Values.
  std::int64_t elements = 0;     // that differ in any bit
  std::int64_t first = -1;       // index of the first, row-major
  std::optional<double> largest; // difference; none if one is no number
};

struct DiffReport {
  bool by_root = false;  // the roots of the checkpoints alone decided
  std::size_t equal = 0; // tensors
  std::vector<TensorDiff> differing;
  std::uint64_t bytes = 0; // read
};

// Compares the tensors of two checkpoints of any formats and layouts, but for
// those that belong to one rank. Reads only what roots do not decide.
DiffReport diff_checkpoints(
    const TensorSet& a,
    const TensorSet& b,
    DiffDepth depth,
    const CopyContext& context_a,
    const CopyContext& context_b);

} // namespace argosy::checkpoint
