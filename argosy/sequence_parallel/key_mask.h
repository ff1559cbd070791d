#pragma once

#include "argosy/comm/ops.h"
#include "argosy/sequence_parallel/ring_attention.h"

// Options of attention that ranks must agree on. Not installed.
namespace argosy::sequence_parallel {

// Throws InvalidArgument unless the mask and the dropout of `options` fit keys
// of that batch and length. `op` is for the message.
void check_options(
    const AttentionOptions& options,
    std::int64_t batch,
    std::int64_t length,
    const char* op);

// The masks [batch, length] of all ranks' keys, by rank; undefined tensors
// without a mask. Collective, unless `group` is null, for one rank.
Tensors gather_key_masks(
    const at::Tensor& own, const SequenceSplit& split, const GroupPtr& group);

// The seed of a call with dropout. Collective unless `options` has one.
std::uint64_t dropout_seed(
    const AttentionOptions& options, const GroupPtr& group);

} // namespace argosy::sequence_parallel
