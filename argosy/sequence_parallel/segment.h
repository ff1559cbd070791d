#pragma once

#include <functional>
#include <memory>
#include <string>

#include "argosy/sequence_parallel/ring_attention.h"
#include "argosy/sequence_parallel/sequence_split.h"

// Segment parallelism (sep): every rank of a group has a part of each sequence
// in the whole model. Only attention communicates.
namespace argosy {

// Computes attention over whole sequences for some heads. Queries, keys and
// values have the same number of heads.
using AttentionFunction = std::function<at::Tensor(
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    const AttentionOptions& options)>;

// Ulysses attention over a sequence that is split over the ranks of a group.
// One all_to_all gives each rank whole sequences of some heads, `attention`
// (empty: tiled_attention()) computes those, and another all_to_all returns the
// outputs.
//
// Shapes are those of ring_attention(). If heads do not divide by the number of
// ranks, the first ranks get one more; ranks beyond the number of heads get
// none and idle. If heads of queries share heads of keys, a group stays on one
// rank if there are enough groups; otherwise keys are sent to all ranks that
// need them.
//
// All ranks of the group must call it alike in forward and backward; blocks. A
// causal mask uses the positions of `split`, which may be in any order. Options
// mean what they do for ring_attention(); `attention` gets the mask of the
// whole sequences, a seed, and the number of its first head.
at::Tensor ulysses_attention(
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    const SequenceSplit& split,
    const std::shared_ptr<Group>& group = nullptr,
    const AttentionOptions& options = {},
    const AttentionFunction& attention = {});

// Ulysses attention on DTensors of the whole shape that are sharded along the
// length over axis `axis` of their mesh. Reshards them to heads and back; the
// result has the placement of the query. A mask is [batch, whole length], a
// DTensor or the same on all ranks; a query whose keys are all padding gets
// NaN. Dropout draws as all ops on DTensors do, so it takes no seed.
at::Tensor ulysses_attention(
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    const std::string& axis,
    const AttentionOptions& options = {});

// A split of sequences over a group, with the operations that a model needs.
class SegmentParallel {
 public:
  // `group` null: the group of the sep axis (hybrid_mesh.h), or all ranks.
  SegmentParallel(const std::shared_ptr<Group>& group, SequenceSplit split);

  const SequenceSplit& split() const { return split_; }

  // This rank's part of a tensor that has the whole sequence along `dim` and is
  // the same on all ranks. Differentiable; backward does not communicate, so
  // each rank's gradient covers only its part.
  at::Tensor part(const at::Tensor& whole, std::int64_t dim = 1) const;

  // The global positions of this rank's part, for position embeddings.
  at::Tensor positions() const;

  // Collective: gathers the whole sequence from the parts of all ranks.
  // Differentiable; the gradient of the result must be the same on all ranks.
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
