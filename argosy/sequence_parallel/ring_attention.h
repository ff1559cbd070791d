#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "argosy/sequence_parallel/sequence_split.h"

namespace argosy {

class Group;

struct AttentionOptions {
  bool causal = false;           // positions attend to themselves and before
  std::optional<double> scale{}; // factor of the scores; none: 1 / sqrt(dim)

  // [batch, length] for the keys that this rank passes, on all ranks or on
  // none. Of type bool: true where a key is padding that nobody attends to.
  // Floating: added to the scores of the key, without a gradient. A query whose
  // keys are all padding gets zeros.
  at::Tensor key_padding_mask{};

  // The probability with which a weight is dropped; the others are divided by
  // 1 - dropout. Which ones depends on the seed, and on the numbers of the row
  // of the batch, the head, the query and the key alone: the result is the same
  // on any number of ranks, in a ring and with Ulysses.
  double dropout = 0;
  // The same on all ranks. None: the first rank of the group draws a seed from
  // its generator and sends it to the others.
  std::optional<std::uint64_t> dropout_seed{};
  // The number of the first head among those of the model, where tensor
  // parallel ranks have some of the heads each.
  std::int64_t first_head = 0;
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
// once. Masks of all ranks are gathered first: a byte or a number for each key.
// Throws InvalidArgument if shapes do not match.
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
