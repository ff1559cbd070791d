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
  bool causal = false;           // a position attends to itself and before
  std::optional<double> scale{}; // of the scores; none: 1 / sqrt(dim)
};

// Attention over a sequence that is spread over the ranks of a group: keys and
// values go around, from each rank to the next, while everybody attends to
// those it has. A rank holds its own and at most two others' at a time, and no
// matrix of scores, so the sequence may be as long as all ranks have memory
// for.
//
// Each rank gives its part of `split`: queries [batch, heads, length, dim],
// keys and values [batch, key heads, length, dim], where heads are a multiple
// of key heads; the output is like the queries. Use zigzag_split() with a
// causal mask. Keys go no further than they are needed.
//
// All members must call it with the same split and options; blocks. Backward,
// which all must take part in, sends keys and values around again, and their
// gradients, of float for shorter types. Differentiable once. Throws
// InvalidArgument for shapes that do not fit.
at::Tensor ring_attention(
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    const SequenceSplit& split,
    const std::shared_ptr<Group>& group = nullptr,
    const AttentionOptions& options = {});

// The same of one rank, without communication: attention that makes no matrix
// of all scores.
at::Tensor tiled_attention(
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    const AttentionOptions& options = {});

} // namespace argosy
