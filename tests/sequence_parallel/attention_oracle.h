#pragma once

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "argosy/sequence_parallel/segment.h"
#include "argosy/sequence_parallel/weight_dropout.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"
#include "tests/support/numbers.h"

// Attention over sequences that are spread over ranks, against the formula on
// one.
namespace argosy::testing {

// What is compared: the output, and the gradients of query, key and value.
using Results = std::vector<at::Tensor>;

struct AttentionCase {
  long batch = 2;
  long heads = 4;
  long key_heads = 4;
  long length = 12;
  long dim = 6;
  long value_dim = 6;
  AttentionOptions options;
  at::ScalarType dtype = torch::kDouble;
};

// Query, key, value, and the gradient of the output.
inline std::vector<at::Tensor> whole_inputs(const AttentionCase& each) {
  const long b = each.batch;
  const long l = each.length;
  std::vector<at::Tensor> inputs{
      numbers({b, each.heads, l, each.dim}, 1) * 3,
      numbers({b, each.key_heads, l, each.dim}, 2),
      numbers({b, each.key_heads, l, each.value_dim}, 3),
      numbers({b, each.heads, l, each.value_dim}, 4)};
  for (at::Tensor& input : inputs) {
    input = input.to(each.dtype);
  }
  return inputs;
}

// The scores of keys that may not be attended to are -inf.
inline at::Tensor masked_scores(
    at::Tensor scores, const AttentionOptions& options) {
  const double hidden = -std::numeric_limits<double>::infinity();
  if (options.causal) {
    const at::Tensor ahead =
        torch::ones({scores.size(2), scores.size(3)}, torch::kBool).triu(1);
    scores = scores.masked_fill(ahead, hidden);
  }
  const at::Tensor& mask = options.key_padding_mask;
  if (!mask.defined()) {
    return scores;
  }
  const at::Tensor of_keys = mask.unsqueeze(1).unsqueeze(1);
  return mask.scalar_type() == torch::kBool
      ? scores.masked_fill(of_keys, hidden)
      : scores + of_keys;
}

// What dropout multiplies the weights [batch, heads, length, length] by.
inline at::Tensor drop_factors(
    at::IntArrayRef sizes, const AttentionOptions& options) {
  const sequence_parallel::WeightDropout dropout{
      options.dropout, options.dropout_seed.value_or(0), options.first_head};
  at::Tensor factors = torch::zeros(sizes, torch::kDouble);
  double* next = factors.data_ptr<double>();
  for (long b = 0; b < sizes[0]; ++b) {
    for (long h = 0; h < sizes[1]; ++h) {
      for (long q = 0; q < sizes[2]; ++q) {
        const std::uint64_t row = dropout.row(b, h, q);
        for (long k = 0; k < sizes[3]; ++k) {
          *next++ = dropout.keeps(row, k) ? 1 / (1 - options.dropout) : 0;
        }
      }
    }
  }
  return factors;
}

// With a matrix of all scores. Queries that may not attend to any key get
// zeros.
inline at::Tensor plain_attention(
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    const AttentionOptions& options) {
  const long group = query.size(1) / key.size(1);
  const at::Tensor keys = key.repeat_interleave(group, 1);
  const double scale =
      options.scale.value_or(1 / std::sqrt(static_cast<double>(query.size(3))));
  const at::Tensor scores = masked_scores(
      torch::matmul(query, keys.transpose(2, 3)) * scale, options);
  const at::Tensor is_empty =
      scores.eq(-std::numeric_limits<double>::infinity()).all(-1, true);
  at::Tensor weights =
      scores.masked_fill(is_empty, 0).softmax(-1).masked_fill(is_empty, 0);
  if (options.dropout > 0) {
    weights = weights *
        drop_factors(weights.sizes(), options).to(weights.scalar_type());
  }
  return torch::matmul(weights, value.repeat_interleave(group, 1));
}

using Attention = std::function<at::Tensor(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value)>;

inline Results results_of(
    const Attention& attention, std::vector<at::Tensor> inputs) {
  for (int i = 0; i < 3; ++i) {
    inputs[i] = inputs[i].detach().requires_grad_();
  }
  const at::Tensor out = attention(inputs[0], inputs[1], inputs[2]);
  Results results = torch::autograd::grad(
      {out}, {inputs[0], inputs[1], inputs[2]}, {inputs[3]});
  results.insert(results.begin(), out.detach());
  return results;
}

inline Results expected_results(const AttentionCase& each) {
  std::vector<at::Tensor> inputs = whole_inputs(each);
  for (at::Tensor& input : inputs) {
    input = input.to(torch::kDouble);
  }
  return results_of(
      [&](const auto& q, const auto& k, const auto& v) {
        return plain_attention(q, k, v, each.options);
      },
      inputs);
}

// Differences of rounding only, by the type.
inline void expect_close(
    const Results& got, const Results& expected, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size());
  const char* names[] = {"out", "dquery", "dkey", "dvalue"};
  for (std::size_t i = 0; i < got.size(); ++i) {
    const at::ScalarType dtype = got[i].scalar_type();
    const double tolerance = dtype == torch::kDouble ? 1e-12
        : dtype == torch::kFloat                     ? 2e-5
                                                     : 3e-2;
    ASSERT_EQ(got[i].sizes(), expected[i].sizes()) << what << names[i];
    const at::Tensor difference =
        (got[i].to(torch::kDouble) - expected[i]).abs();
    const double most =
        difference.numel() == 0 ? 0 : difference.max().item<double>();
    EXPECT_LE(most, tolerance) << what << " " << names[i];
  }
}

// This rank's parts of the inputs or results.
inline std::vector<at::Tensor> parts_of(
    const SegmentParallel& segment, std::vector<at::Tensor> tensors) {
  for (at::Tensor& tensor : tensors) {
    tensor = segment.part(tensor, 2);
  }
  return tensors;
}

// The options with this rank's part of the mask.
inline AttentionOptions own_options(
    const SegmentParallel& segment, AttentionOptions options) {
  if (options.key_padding_mask.defined()) {
    options.key_padding_mask = segment.part(options.key_padding_mask, 1);
  }
  return options;
}

// Masks of padding for a batch of 2: at the end, in the middle and at the
// beginning, where causal queries have no key left; and numbers to add.
inline std::vector<at::Tensor> padding_masks(long length) {
  const at::Tensor place = torch::arange(length);
  const at::Tensor end =
      torch::stack({place >= length - 1, place >= length / 3});
  const at::Tensor middle = torch::stack(
      {(place >= length / 4).logical_and(place < length * 3 / 4), place < 0});
  const at::Tensor start = torch::stack({place < length / 2, place >= 0});
  const at::Tensor added = numbers({2, length}, 8) * 4;
  return {
      end,
      middle,
      start,
      added,
      added.masked_fill(start, -std::numeric_limits<double>::infinity())};
}

// The parts of the inputs, as leaves.
inline std::vector<at::Tensor> own_inputs(
    const SegmentParallel& segment, const AttentionCase& each) {
  std::vector<at::Tensor> inputs = parts_of(segment, whole_inputs(each));
  for (at::Tensor& input : inputs) {
    input.requires_grad_();
  }
  return inputs;
}

// Each rank's results against its part of the whole ones.
inline void check_on_ranks(
    const AttentionCase& each,
    const SequenceSplit& split,
    const std::function<Attention(const SegmentParallel&)>& make,
    const std::string& what) {
  const Results whole = expected_results(each);
  run_ranks(split.nranks(), [&](World& world) {
    const SegmentParallel segment(nullptr, split);
    const Results got =
        results_of(make(segment), parts_of(segment, whole_inputs(each)));
    for (const at::Tensor& result : got) {
      EXPECT_EQ(result.scalar_type(), each.dtype);
    }
    expect_close(
        got,
        parts_of(segment, whole),
        what + " on rank " + std::to_string(world.rank()) + " of " +
            std::to_string(world.size()));
  });
}

} // namespace argosy::testing
