#pragma once

#include <memory>
#include <optional>

#include "argosy/sequence_parallel/sequence_split.h"

namespace at {
class Tensor;
}

namespace argosy {

class Group;

struct AttentionOptions {
  bool causal = false;           // positions attend to themselves and before
  std::optional<double> scale{}; // factor of the scores; none: 1 / sqrt(dim)
};

// Ring attention: attention over a sequence that is split over the ranks of a
// group. Keys and values travel around the ring, from each rank to the next,
// while each rank attends to those that it has. A rank holds its own keys and
// values and those of at most two other ranks, and no matrix of scores, so the
// memory of all ranks together limits the length of the sequence.
//
// Each rank passes its part of `split`: queries [batch, heads, length, dim],
// and keys and values [batch, key heads, length, dim], where heads are a
// multiple of key heads. The output has the shape of the queries. With a causal
// mask, use zigzag_split(); keys then travel only as far as they are needed.
//
// All ranks of the group must call it alike, with the same split and options;
// blocks. Backward is collective too: it sends keys and values around again,
// together with their gradients, in float for 16-bit types. Differentiable
// once. Throws InvalidArgument if shapes do not match.
at::Tensor ring_attention(
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    const SequenceSplit& split,
    const std::shared_ptr<Group>& group = nullptr,
    const AttentionOptions& options = {});

// Attention on one rank, without communication, that computes scores in tiles
// instead of one large matrix.
at::Tensor tiled_attention(
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    const AttentionOptions& options = {});

} // namespace argosy
