#include "argosy/sequence_parallel/tiled_attention.h"

#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <functional>
#include <limits>

// Attention by tiles with an online softmax. For each query, forward keeps the
// largest score so far (most_), the sum of exp(score - most_) and the same
// weighted sum of values (out_). A new tile may raise the maximum: sum and
// output are then scaled by exp(old - new). The order of the tiles does not
// matter to the result except for rounding, so keys may come from other ranks.
// Memory is that of one tile of scores instead of length^2.
//
// Backward recomputes the scores of a tile and gets the weights from log_sum =
// most_ + log(sum), without the maximum.
namespace argosy::sequence_parallel {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A tile of scores and the matrices around it should fit into the core's cache.
constexpr std::int64_t kTileKeys = 256;
constexpr std::int64_t kTileScores = 256 << 10;
constexpr std::int64_t kLeastRows = 16;

// All heads are in one tile, as one batched product. The lower bound keeps the
// products from becoming thin, even if the tile outgrows the cache.
std::int64_t queries_in_tile(const AttentionShape& shape) {
  const std::int64_t matrices =
      std::max<std::int64_t>(shape.batch * shape.key_heads * shape.group, 1);
  return std::max(kTileScores / kTileKeys / matrices, kLeastRows);
}

// Converts [batch, heads, length, dim] to the internal order of rows.
at::Tensor to_rows(const at::Tensor& tensor, const AttentionShape& shape) {
  const std::int64_t dim = tensor.size(3);
  return tensor.to(shape.sums)
      .reshape({shape.batch, shape.key_heads, shape.group, shape.length, dim})
      .transpose(2, 3)
      .reshape({shape.batch * shape.key_heads, shape.length, shape.group, dim})
      .contiguous();
}

at::Tensor from_rows(const at::Tensor& rows, const AttentionShape& shape) {
  const std::int64_t dim = rows.size(3);
  return rows
      .view({shape.batch, shape.key_heads, shape.length, shape.group, dim})
      .transpose(2, 3)
      .reshape({shape.batch, shape.heads, shape.length, dim})
      .to(shape.dtype);
}

// Views [batch, key heads, length, dim] as a batch of matrices.
at::Tensor matrices(const at::Tensor& tensor) {
  return tensor.flatten(0, 1);
}

// The rows of some queries as one matrix: a view of [.., length, group, dim] or
// [.., length, group].
at::Tensor rows_of(const at::Tensor& all, const Segment& queries) {
  std::vector<std::int64_t> sizes = all.sizes().vec();
  sizes.erase(sizes.begin() + 1);
  sizes[1] *= queries.size;
  return all.narrow(1, queries.begin, queries.size).view(sizes);
}

struct Tile {
  Segment queries;
  Segment keys;
  // A query sees the keys whose position in the tile is at most its own plus
  // this.
  std::int64_t visible;

  bool is_cut() const { return visible < keys.size - 1; }
};

// Visits the tiles of a block, without masked ones. Each query's first tile has
// a key that it sees, so that its maximum is finite from then on.
void for_each_tile(
    const AttentionBlock& block,
    std::int64_t tile_queries,
    const std::function<void(const Tile&)>& visit) {
  for (std::int64_t k = 0; k < block.keys.size; k += kTileKeys) {
    const std::int64_t num_keys = std::min(kTileKeys, block.keys.size - k);
    for (std::int64_t q = 0; q < block.queries.size; q += tile_queries) {
      const std::int64_t num = std::min(tile_queries, block.queries.size - q);
      const std::int64_t visible = block.is_diagonal ? q - k : num_keys;
      if (visible + num > 0) {
        visit(
            {{block.queries.begin + q, num},
             {block.keys.begin + k, num_keys},
             visible});
      }
    }
  }
}

void mask(at::Tensor& scores, const Tile& tile, std::int64_t group) {
  if (!tile.is_cut()) {
    return;
  }
  const std::int64_t queries = tile.queries.size;
  const std::int64_t keys = tile.keys.size;
  const at::Tensor hidden =
      at::ones({queries, keys}, scores.options().dtype(at::kBool))
          .triu(tile.visible + 1);
  scores.view({scores.size(0), queries, group, keys})
      .masked_fill_(hidden.unsqueeze(1), -kInfinity);
}

// The keys or values of a tile in the type of sums. Caches the last one,
// because tiles with the same keys follow each other.
class TileOf {
 public:
  TileOf(const at::Tensor& all, at::ScalarType sums)
      : all_(matrices(all)), sums_(sums) {}

  const at::Tensor& at(const Segment& keys) {
    if (!(keys == keys_)) {
      keys_ = keys;
      tile_ = all_.narrow(1, keys.begin, keys.size).to(sums_);
    }
    return tile_;
  }

 private:
  const at::Tensor all_;
  const at::ScalarType sums_;
  Segment keys_{-1, -1};
  at::Tensor tile_;
};

// Adds the mask of a tile's keys to its scores.
void add_mask(
    const at::Tensor& scores,
    const at::Tensor& mask,
    const Tile& tile,
    const AttentionShape& shape) {
  if (!mask.defined()) {
    return;
  }
  const at::Tensor own = mask.narrow(1, tile.keys.begin, tile.keys.size)
                             .view({shape.batch, 1, 1, tile.keys.size});
  const at::Tensor all = scores.view(
      {shape.batch, shape.key_heads, scores.size(1), tile.keys.size});
  if (mask.scalar_type() == at::kBool) {
    all.masked_fill_(own, -kInfinity);
  } else {
    all.add_(own);
  }
}

at::Tensor scores_of(
    const at::Tensor& queries,
    const at::Tensor& keys,
    const at::Tensor& mask_of_keys,
    const Tile& tile,
    const AttentionShape& shape) {
  at::Tensor scores = at::bmm(queries, keys.transpose(1, 2));
  mask(scores, tile, shape.group);
  add_mask(scores, mask_of_keys, tile, shape);
  return scores;
}

// Fills one row for each query and head of a matrix: 0 where the weight is
// dropped, else 1 / (1 - p).
template <typename Number>
void fill_factors(
    Number* rows,
    const Tile& tile,
    std::int64_t matrix,
    const AttentionShape& shape,
    const AttentionRules& rules,
    const Positions& keys) {
  const auto kept = static_cast<Number>(1 / (1 - rules.dropout.probability));
  const std::int64_t batch = matrix / shape.key_heads;
  const std::int64_t first_head = matrix % shape.key_heads * shape.group;
  for (std::int64_t i = 0; i < tile.queries.size; ++i) {
    for (std::int64_t g = 0; g < shape.group; ++g) {
      const std::uint64_t row = rules.dropout.row(
          batch, first_head + g, rules.queries[tile.queries.begin + i]);
      for (std::int64_t k = 0; k < tile.keys.size; ++k) {
        *rows++ = rules.dropout.keeps(row, keys[tile.keys.begin + k])
            ? kept
            : Number();
      }
    }
  }
}

// The factors of a tile's weights; undefined without dropout.
at::Tensor drop_factors(
    const at::Tensor& scores,
    const Tile& tile,
    const AttentionShape& shape,
    const AttentionRules& rules,
    const Positions& keys) {
  if (rules.dropout.probability == 0) {
    return {};
  }
  at::Tensor factors = at::empty(scores.sizes(), scores.options());
  const std::int64_t size = scores.size(1) * scores.size(2);
  AT_DISPATCH_FLOATING_TYPES(scores.scalar_type(), "attention_dropout", [&] {
    auto* all = factors.data_ptr<scalar_t>();
    at::parallel_for(
        0, scores.size(0), 1, [&](std::int64_t i, std::int64_t end) {
          for (; i < end; ++i) {
            fill_factors(all + i * size, tile, i, shape, rules, keys);
          }
        });
  });
  return factors;
}

// Rows whose keys were all padding so far have no maximum: 0 instead lets their
// exponentials be 0.
at::Tensor finite_base(const at::Tensor& most) {
  return most.masked_fill(most.eq(-kInfinity), 0);
}

} // namespace

AttentionShape::AttentionShape(
    const at::Tensor& queries, const at::Tensor& keys)
    : batch(queries.size(0)),
      heads(queries.size(1)),
      key_heads(keys.size(1)),
      group(key_heads > 0 ? heads / key_heads : 1),
      length(queries.size(2)),
      dtype(queries.scalar_type()),
      sums(at::toOpMathType(dtype)) {}

AttentionForward::AttentionForward(
    const at::Tensor& queries,
    const at::Tensor& keys,
    const at::Tensor& values,
    const AttentionRules& rules)
    : shape_(queries, keys),
      rules_(rules),
      queries_(to_rows(queries, shape_).mul(rules.scale)) {
  const std::int64_t count = shape_.batch * shape_.key_heads;
  most_ = at::full(
      {count, shape_.length, shape_.group}, -kInfinity, queries_.options());
  sum_ = at::zeros(most_.sizes(), queries_.options());
  out_ = at::zeros(
      {count, shape_.length, shape_.group, values.size(3)}, queries_.options());
}

void AttentionForward::add(
    const KeyBlock& keys, const std::vector<AttentionBlock>& blocks) {
  if (blocks.empty()) {
    return;
  }
  TileOf key_tile(keys.keys, shape_.sums);
  TileOf value_tile(keys.values, shape_.sums);
  const auto add_tile = [&](const Tile& tile) {
    at::Tensor scores = scores_of(
        rows_of(queries_, tile.queries),
        key_tile.at(tile.keys),
        keys.mask,
        tile,
        shape_);
    at::Tensor most = rows_of(most_, tile.queries);
    const at::Tensor now = at::maximum(most, scores.amax(-1));
    const at::Tensor base = keys.mask.defined() ? finite_base(now) : now;
    scores.sub_(base.unsqueeze(-1)).exp_();
    // exp(-inf) = 0 for the first tile: sum_ and out_ start from zero.
    const at::Tensor decay = most.sub(base).exp_();
    most.copy_(now);
    rows_of(sum_, tile.queries).mul_(decay).add_(scores.sum(-1));
    // After the sum: dropout applies to the weights, whose sum stays 1.
    const at::Tensor factors =
        drop_factors(scores, tile, shape_, rules_, keys.positions);
    if (factors.defined()) {
      scores.mul_(factors);
    }
    rows_of(out_, tile.queries)
        .mul_(decay.unsqueeze(-1))
        .baddbmm_(scores, value_tile.at(tile.keys));
  };
  for (const AttentionBlock& block : blocks) {
    for_each_tile(block, queries_in_tile(shape_), add_tile);
  }
}

// An infinite log_sum makes all weights of a row 0 in backward.
Attended AttentionForward::finish() {
  const at::Tensor is_empty = sum_.eq(0);
  sum_.masked_fill_(is_empty, 1);
  const at::Tensor out = out_.div_(sum_.unsqueeze(-1));
  return {
      from_rows(out, shape_),
      sum_.log_().add_(most_).masked_fill_(is_empty, kInfinity)};
}

AttentionBackward::AttentionBackward(
    const at::Tensor& queries,
    const at::Tensor& keys,
    const Attended& attended,
    const at::Tensor& out_gradient,
    const AttentionRules& rules)
    : shape_(queries, keys),
      rules_(rules),
      queries_(to_rows(queries, shape_).mul(rules.scale)),
      log_sum_(attended.log_sum),
      out_gradient_(to_rows(out_gradient, shape_)),
      product_((to_rows(attended.out, shape_) * out_gradient_).sum(-1)),
      query_gradient_(at::zeros(queries_.sizes(), queries_.options())) {}

void AttentionBackward::add(
    const KeyBlock& keys,
    const std::vector<AttentionBlock>& blocks,
    const at::Tensor& key_gradient,
    const at::Tensor& value_gradient) {
  if (blocks.empty()) {
    return;
  }
  TileOf key_tile(keys.keys, shape_.sums);
  TileOf value_tile(keys.values, shape_.sums);
  const auto add_tile = [&](const Tile& tile) {
    const at::Tensor q = rows_of(queries_, tile.queries);
    const at::Tensor gradient = rows_of(out_gradient_, tile.queries);
    const at::Tensor& k = key_tile.at(tile.keys);
    const at::Tensor& v = value_tile.at(tile.keys);
    const auto of_keys = [&](const at::Tensor& all) {
      return matrices(all).narrow(1, tile.keys.begin, tile.keys.size);
    };
    at::Tensor weights = scores_of(q, k, keys.mask, tile, shape_);
    weights.sub_(rows_of(log_sum_, tile.queries).unsqueeze(-1)).exp_();
    const at::Tensor factors =
        drop_factors(weights, tile, shape_, rules_, keys.positions);
    const at::Tensor used = factors.defined() ? weights * factors : weights;
    of_keys(value_gradient).baddbmm_(used.transpose(1, 2), gradient);
    at::Tensor score_gradient = at::bmm(gradient, v.transpose(1, 2));
    if (factors.defined()) {
      score_gradient.mul_(factors);
    }
    // The softmax's gradient: weights * (dP - row sum of dO * O), with the row
    // sum computed once for all tiles.
    score_gradient.sub_(rows_of(product_, tile.queries).unsqueeze(-1))
        .mul_(weights);
    of_keys(key_gradient).baddbmm_(score_gradient.transpose(1, 2), q);
    rows_of(query_gradient_, tile.queries).baddbmm_(score_gradient, k);
  };
  for (const AttentionBlock& block : blocks) {
    for_each_tile(block, queries_in_tile(shape_), add_tile);
  }
}

at::Tensor AttentionBackward::query_gradient() const {
  return from_rows(query_gradient_ * rules_.scale, shape_);
}

} // namespace argosy::sequence_parallel
