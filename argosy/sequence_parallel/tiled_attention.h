#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "argosy/sequence_parallel/sequence_split.h"
#include "argosy/sequence_parallel/weight_dropout.h"

// Attention to keys that arrive block by block, without a matrix of all scores.
// To combine blocks it needs the logarithms of the softmax sums, which
// LibTorch 1.13's attention for the CPU does not return.
//
// Queries are [batch, heads, length, dim], keys and values [batch, key heads,
// length, dim]; groups of query heads share a key head. 16-bit types are summed
// in float. Internally queries are [batch * key heads, length, group, dim], so
// that the queries that share a key form one matrix. Scores are computed one
// tile at a time.
namespace argosy::sequence_parallel {

struct AttentionShape {
  explicit AttentionShape(const at::Tensor& queries, const at::Tensor& keys);

  std::int64_t batch = 0;
  std::int64_t heads = 0;
  std::int64_t key_heads = 0;
  std::int64_t group = 1; // query heads per key head
  std::int64_t length = 0;
  at::ScalarType dtype; // of the queries
  at::ScalarType sums;  // of sums
};

struct Attended {
  at::Tensor out; // shape of the queries, with the values' dim
  // logsumexp of each row's scores; internal row order. Infinite for rows that
  // have attended to no key.
  at::Tensor log_sum;
};

// Keys that arrive together.
struct KeyBlock {
  at::Tensor keys;
  at::Tensor values;
  // [batch, length]: true for padding, or numbers to add to the scores.
  // Undefined: none.
  at::Tensor mask{};
  Positions positions{}; // for dropout
};

// What all blocks of a call share.
struct AttentionRules {
  double scale = 1;
  WeightDropout dropout{};
  Positions queries{}; // the positions of this rank's queries, for dropout
};

// `rules` must outlive it.
class AttentionForward {
 public:
  AttentionForward(
      const at::Tensor& queries,
      const at::Tensor& keys,
      const at::Tensor& values,
      const AttentionRules& rules);

  void add(const KeyBlock& keys, const std::vector<AttentionBlock>& blocks);

  // Call it once. Rows that have attended to no key are zeros.
  Attended finish();

 private:
  const AttentionShape shape_;
  const AttentionRules& rules_;
  at::Tensor queries_; // scaled
  at::Tensor most_;    // maximum score of each row so far
  at::Tensor sum_;     // of exp(score - most)
  at::Tensor out_;     // of exp(score - most) * value
};

// `rules` must outlive it.
class AttentionBackward {
 public:
  AttentionBackward(
      const at::Tensor& queries,
      const at::Tensor& keys,
      const Attended& attended,
      const at::Tensor& out_gradient,
      const AttentionRules& rules);

  // Adds to `key_gradient` and `value_gradient`, which have type sums().
  void add(
      const KeyBlock& keys,
      const std::vector<AttentionBlock>& blocks,
      const at::Tensor& key_gradient,
      const at::Tensor& value_gradient);

  at::ScalarType sums() const { return shape_.sums; }

  at::Tensor query_gradient() const;

 private:
  const AttentionShape shape_;
  const AttentionRules& rules_;
  at::Tensor queries_; // scaled
  at::Tensor log_sum_;
  at::Tensor out_gradient_;
  at::Tensor product_; // dot product of each row's output and its gradient
  at::Tensor query_gradient_;
};

} // namespace argosy::sequence_parallel
