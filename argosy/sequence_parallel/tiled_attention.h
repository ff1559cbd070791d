#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "argosy/sequence_parallel/sequence_split.h"

// Attention to keys that come block by block, without a matrix of all scores:
// LibTorch 1.13 has none for the CPU that gives the logarithms of the sums,
// which blocks are put together by.
//
// Queries are [batch, heads, length, dim], keys and values [batch, key heads,
// length, dim]; groups of query heads share a key head. Sums are in float for
// shorter types. Inside, a tensor of queries has its rows in the order
// [batch * key heads, length, group, dim], so that the queries that share a key
// are one matrix. Scores are made a tile at a time.
namespace argosy::sequence_parallel {

struct AttentionShape {
  explicit AttentionShape(const at::Tensor& queries, const at::Tensor& keys);

  std::int64_t batch = 0;
  std::int64_t heads = 0;
  std::int64_t key_heads = 0;
  std::int64_t group = 1; // query heads to a key head
  std::int64_t length = 0;
  at::ScalarType dtype; // of the queries
  at::ScalarType sums;  // of all that is added up
};

struct Attended {
  at::Tensor out;     // like the queries, with the values' dim
  at::Tensor log_sum; // of the exponentials of a row's scores; rows as inside
};

class AttentionForward {
 public:
  AttentionForward(
      const at::Tensor& queries,
      const at::Tensor& keys,
      const at::Tensor& values,
      double scale);

  void add(
      const at::Tensor& keys,
      const at::Tensor& values,
      const std::vector<AttentionBlock>& blocks);

  // Once. Rows that had no keys are not numbers.
  Attended finish();

 private:
  const AttentionShape shape_;
  at::Tensor queries_; // scaled
  at::Tensor most_;    // the greatest score of a row so far
  at::Tensor sum_;     // of exp(score - most)
  at::Tensor out_;     // of exp(score - most) * value
};

class AttentionBackward {
 public:
  AttentionBackward(
      const at::Tensor& queries,
      const at::Tensor& keys,
      const Attended& attended,
      const at::Tensor& out_gradient,
      double scale);

  // Adds to the gradients of these keys and values, of type sums().
  void add(
      const at::Tensor& keys,
      const at::Tensor& values,
      const std::vector<AttentionBlock>& blocks,
      const at::Tensor& key_gradient,
      const at::Tensor& value_gradient);

  at::ScalarType sums() const { return shape_.sums; }

  at::Tensor query_gradient() const;

 private:
  const AttentionShape shape_;
  const double scale_;
  at::Tensor queries_; // scaled
  at::Tensor log_sum_;
  at::Tensor out_gradient_;
  at::Tensor product_; // of a row's output and its gradient
  at::Tensor query_gradient_;
};

} // namespace argosy::sequence_parallel
