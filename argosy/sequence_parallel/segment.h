#pragma once

#include <functional>
#include <memory>
#include <string>

#include "argosy/sequence_parallel/ring_attention.h"
#include "argosy/sequence_parallel/sequence_split.h"

// Segment parallelism (sep): every rank of a group has a part of each sequence
// through the whole model; only attention needs the others.
namespace argosy {

// Attention of whole sequences over some heads: queries, keys and values, all
// of as many heads, to the output.
using AttentionFunction = std::function<at::Tensor(
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    const AttentionOptions& options)>;

// Attention over a sequence that is spread over the ranks of a group (Ulysses):
// one all_to_all gives each rank whole sequences of some heads, `attention`
// (empty: tiled_attention()) works on those, and another all_to_all brings the
// outputs back.
//
// Shapes as of ring_attention(). Heads need not divide by the ranks; the first
// have one more, and ranks beyond the heads none, so heads should be no fewer.
// Where heads share keys, whole groups stay together if there are enough of
// them, else keys are sent to all who need them.
//
// All members must call it alike, forward and backward; blocks. The positions
// that the mask of a causal attention goes by are those of `split`, in any
// order.
at::Tensor ulysses_attention(
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    const SequenceSplit& split,
    const std::shared_ptr<Group>& group = nullptr,
    const AttentionOptions& options = {},
    const AttentionFunction& attention = {});

// The same on DTensors of the whole shape that are cut along the length by one
// axis of their mesh: resharded to be cut by heads, and back. Gives the result
// where the query was.
at::Tensor ulysses_attention(
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    const std::string& axis,
    const AttentionOptions& options = {});

// A rank's part of sequences.
class SegmentParallel {
 public:
  // Null: the group of the sep axis (hybrid_mesh.h), or of all ranks.
  SegmentParallel(const std::shared_ptr<Group>& group, SequenceSplit split);

  const SequenceSplit& split() const { return split_; }

  // This rank's part of a tensor that has the whole sequence along `dim`, the
  // same on all ranks. Differentiable; each rank's gradient is of its part.
  at::Tensor part(const at::Tensor& whole, std::int64_t dim = 1) const;

  // The positions of this rank's part, for position embeddings.
  at::Tensor positions() const;

  // The whole sequence of everybody's parts, on all ranks. A collective.
  // Differentiable, with a gradient that is the same on all ranks.
  at::Tensor whole(const at::Tensor& part, std::int64_t dim = 1) const;

  at::Tensor ulysses(
      const at::Tensor& query,
      const at::Tensor& key,
      const at::Tensor& value,
      const AttentionOptions& options = {}) const;
  at::Tensor ring(
      const at::Tensor& query,
      const at::Tensor& key,
      const at::Tensor& value,
      const AttentionOptions& options = {}) const;

 private:
  const std::shared_ptr<Group> group_;
  const SequenceSplit split_;
};

} // namespace argosy
