#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "argosy/comm/ops.h"

// Checks that tensors are equal on all ranks, without sending them.
namespace argosy::comm {

// Depends on the type, the shape and the bits of all elements. 0 for tensors
// without memory: undefined, deferred, sparse.
std::uint64_t value_hash(const at::Tensor& tensor);

// Compares tensors that should be equal on all ranks of the group. Collective
// and blocking; as long as nothing differs each rank sends 8 bytes. Returns the
// same text on all ranks: empty, or the first tensor that differs and where,
// for an error message:
//
//   "weight: the values on ranks 1, 3 differ from those on rank 0"
std::string first_difference(
    const std::vector<std::pair<std::string, at::Tensor>>& tensors,
    const GroupPtr& group);

} // namespace argosy::comm
