#pragma once

#include <cstdint>
#include <iosfwd>
#include <vector>

#include "argosy/checkpoint/tensor_info.h"

// Which rank writes what. A pure function of what ranks hold.
namespace argosy::checkpoint {

// A box of a tensor that a rank has in memory.
struct Holding {
  std::uint32_t tensor = 0; // index in the list of tensors
  Box box;
  // Values may differ by rank although they should be equal, as buffers of
  // layers do: the lowest rank that holds them writes all of them.
  bool from_first = false;

  bool operator==(const Holding&) const = default;
};

// A part of a holding that a rank writes.
struct PlannedWrite {
  std::uint32_t tensor = 0;
  std::uint32_t holding = 0; // index in the rank's list
  Box box;                   // of the whole tensor

  bool operator==(const PlannedWrite&) const = default;
};

using WritePlan = std::vector<std::vector<PlannedWrite>>; // by rank

// Assigns each element that any rank holds to exactly one rank that holds it,
// so that all ranks write about equally many bytes. Holdings that several ranks
// have are cut along their first dim where that balances; pieces smaller than
// `least_bytes` are not cut. Throws CheckpointError, with the names and boxes,
// if no rank holds some elements of a tensor.
WritePlan plan_writes(
    const std::vector<TensorInfo>& tensors,
    const std::vector<std::vector<Holding>>& holdings,
    std::uint64_t least_bytes = 64 << 10);

std::uint64_t bytes_of(
    const std::vector<TensorInfo>& tensors,
    const std::vector<PlannedWrite>& writes);

std::ostream& operator<<(std::ostream& out, const WritePlan& plan);

} // namespace argosy::checkpoint
