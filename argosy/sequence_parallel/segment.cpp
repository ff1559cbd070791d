#include "argosy/sequence_parallel/segment.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_scaled_dot_product_attention.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "argosy/comm/functional.h"
#include "argosy/common/error.h"
#include "argosy/dtensor/dtensor.h"
#include "argosy/dtensor/tensor/convert.h"
#include "argosy/sequence_parallel/key_mask.h"
#include "argosy/sequence_parallel/split_group.h"

namespace argosy {

namespace {

using sequence_parallel::HeadRange;
using Sizes = std::vector<std::int64_t>;

constexpr int kHeads = 1; // dims
constexpr int kLength = 2;

// Selects entries of one dim in the order `indices`. Returns the tensor itself
// if those are all entries in order.
at::Tensor select(
    const at::Tensor& tensor, std::int64_t dim, const Sizes& indices) {
  Sizes own(tensor.size(dim));
  std::iota(own.begin(), own.end(), 0);
  return indices == own ? tensor
                        : tensor.index_select(dim, at::tensor(indices));
}

// The positions of the sequence in the order in which the ranks hold them.
Sizes rank_order(const SequenceSplit& split) {
  Sizes order;
  for (int rank = 0; rank < split.nranks(); ++rank) {
    const Sizes part = split.positions(rank);
    order.insert(order.end(), part.begin(), part.end());
  }
  return order;
}

Sizes inverse(const Sizes& order) {
  Sizes places(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    places[order[i]] = static_cast<std::int64_t>(i);
  }
  return places;
}

Sizes lengths_of(const SequenceSplit& split) {
  Sizes lengths;
  for (int rank = 0; rank < split.nranks(); ++rank) {
    lengths.push_back(split.length(rank));
  }
  return lengths;
}

struct Qkv {
  at::Tensor query;
  at::Tensor key;
  at::Tensor value;
};

// The two all-to-alls of Ulysses: from parts of the sequence to heads, and
// back. Query, key and value for a peer travel in one message. Of n ranks, each
// keeps 1/n of its numbers and sends the rest once each way, so the bytes of a
// rank shrink as n grows, whereas ring attention sends all keys to every rank
// that needs them.
class HeadExchange {
 public:
  HeadExchange(
      const Qkv& own, const SequenceSplit& split, const GroupPtr& group)
      : group_(group),
        heads_(sequence_parallel::split_heads(
            own.query.size(kHeads), own.key.size(kHeads), split.nranks())),
        lengths_(lengths_of(split)),
        batch_(own.query.size(0)),
        dim_(own.query.size(3)),
        value_dim_(own.value.size(3)) {}

  const HeadRange& heads() const { return heads_[group_->rank()]; }

  // Returns whole sequences of this rank's heads, with positions in the order
  // of the ranks.
  Qkv to_heads(const Qkv& own) const {
    const auto queries = parts_of(own.query, &HeadRange::queries);
    const auto keys = parts_of(own.key, &HeadRange::keys);
    const auto values = parts_of(own.value, &HeadRange::keys);
    Tensors pieces;
    RowSplits splits;
    for (int i = 0; i < group_->nranks(); ++i) {
      for (const auto* parts : {&queries, &keys, &values}) {
        pieces.push_back((*parts)[i].reshape(-1));
      }
      splits.in.push_back(count(heads_[i], lengths_[group_->rank()]));
      splits.out.push_back(count(heads(), lengths_[i]));
    }
    // One flat tensor: to_heads() cuts it up in the order query, key, value by
    // rank; joined() relies on that order.
    return joined(functional::alltoall_single(at::cat(pieces), splits, group_));
  }

  // Returns this rank's part of the sequence for all heads.
  at::Tensor to_parts(const at::Tensor& out) const {
    Tensors pieces;
    RowSplits splits;
    const std::int64_t length = lengths_[group_->rank()];
    for (const at::Tensor& part : out.split_with_sizes(lengths_, kLength)) {
      pieces.push_back(part.reshape(-1));
      splits.in.push_back(part.numel());
    }
    for (const HeadRange& range : heads_) {
      splits.out.push_back(batch_ * range.queries.size * length * value_dim_);
    }
    const at::Tensor received =
        functional::alltoall_single(at::cat(pieces), splits, group_);
    Tensors all = received.split_with_sizes(splits.out);
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i] =
          all[i].view({batch_, heads_[i].queries.size, length, value_dim_});
    }
    return at::cat(all, kHeads);
  }

 private:
  // The heads for each rank. A head that several ranks need is sent to each.
  Tensors parts_of(const at::Tensor& tensor, Segment HeadRange::*range) const {
    Sizes sizes;
    Sizes indices;
    for (const HeadRange& heads : heads_) {
      const Segment& its = heads.*range;
      sizes.push_back(its.size);
      for (std::int64_t i = its.begin; i < its.end(); ++i) {
        indices.push_back(i);
      }
    }
    return select(tensor, kHeads, indices).split_with_sizes(sizes, kHeads);
  }

  std::int64_t count(const HeadRange& range, std::int64_t length) const {
    return batch_ * length *
        (range.queries.size * dim_ + range.keys.size * (dim_ + value_dim_));
  }

  Qkv joined(const at::Tensor& received) const {
    Sizes sizes;
    for (const std::int64_t length : lengths_) {
      sizes.push_back(batch_ * heads().queries.size * length * dim_);
      sizes.push_back(batch_ * heads().keys.size * length * dim_);
      sizes.push_back(batch_ * heads().keys.size * length * value_dim_);
    }
    const Tensors pieces = received.split_with_sizes(sizes);
    const auto join = [&](std::size_t which, std::int64_t count, auto dim) {
      Tensors parts;
      for (std::size_t i = 0; i < lengths_.size(); ++i) {
        parts.push_back(
            pieces[3 * i + which].view({batch_, count, lengths_[i], dim}));
      }
      return at::cat(parts, kLength);
    };
    return {
        join(0, heads().queries.size, dim_),
        join(1, heads().keys.size, dim_),
        join(2, heads().keys.size, value_dim_)};
  }

  const GroupPtr group_;
  const std::vector<HeadRange> heads_; // by rank
  const Sizes lengths_;                // by rank
  const std::int64_t batch_;
  const std::int64_t dim_;
  const std::int64_t value_dim_;
};

// The local key head of each local query head.
Sizes keys_of_queries(const HeadRange& heads, std::int64_t group) {
  Sizes indices;
  for (std::int64_t i = heads.queries.begin; i < heads.queries.end(); ++i) {
    indices.push_back(i / group - heads.keys.begin);
  }
  return indices;
}

// Whether query heads share key heads in groups of equal size.
bool is_grouped(const Sizes& keys, std::int64_t num_keys) {
  const auto count = static_cast<std::int64_t>(keys.size());
  if (num_keys == 0 || count % num_keys != 0) {
    return count == 0;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    if (keys[i] != i / (count / num_keys)) {
      return false;
    }
  }
  return true;
}

// A grouped layout lets tiled_attention() share each key head between its query
// heads. Otherwise, and for a function of the user, each query head gets a copy
// of its key head.
at::Tensor attend(
    const Qkv& whole,
    const Sizes& keys,
    const AttentionOptions& options,
    const AttentionFunction& attention) {
  if (!attention && is_grouped(keys, whole.key.size(kHeads))) {
    return tiled_attention(whole.query, whole.key, whole.value, options);
  }
  const at::Tensor key = select(whole.key, kHeads, keys);
  const at::Tensor value = select(whole.value, kHeads, keys);
  return attention ? attention(whole.query, key, value, options)
                   : tiled_attention(whole.query, key, value, options);
}

// The options for whole sequences of some heads.
AttentionOptions options_of_heads(
    AttentionOptions options,
    const SequenceSplit& split,
    const HeadRange& heads,
    const GroupPtr& group) {
  if (options.key_padding_mask.defined()) {
    options.key_padding_mask = at::cat(
        sequence_parallel::gather_key_masks(
            options.key_padding_mask, split, group),
        1);
  }
  if (options.dropout > 0) {
    options.dropout_seed = sequence_parallel::dropout_seed(options, group);
    options.first_head += heads.queries.begin;
  }
  return options;
}

// What the op for DTensors adds to the scores [batch, heads, length, length]:
// the mask of the keys, which all ranks of the axis need whole. The op takes
// either a mask or that it is causal.
c10::optional<at::Tensor> mask_of_scores(
    const AttentionOptions& options,
    const at::Tensor& query,
    const ProcessMesh& mesh,
    std::size_t axis) {
  at::Tensor mask = options.key_padding_mask;
  if (!mask.defined()) {
    return c10::nullopt;
  }
  const std::int64_t length = query.size(kLength);
  sequence_parallel::check_options(
      options, query.size(0), length, "ulysses_attention");
  if (is_dtensor(mask)) {
    Placements placements = placements_of(mask);
    placements[axis] = Replicate();
    mask = reshard(mask, mesh, placements);
  }
  const double hidden = -std::numeric_limits<double>::infinity();
  const auto dtype = query.scalar_type();
  if (mask.scalar_type() == at::kBool) {
    mask = at::zeros_like(mask, at::TensorOptions(dtype))
               .masked_fill(mask, hidden);
  }
  mask = mask.to(dtype).unsqueeze(1).unsqueeze(1);
  return options.causal
      ? mask + at::full({length, length}, hidden, dtype).triu(1)
      : mask;
}

void check_shapes(const Qkv& own, std::int64_t length) {
  for (const at::Tensor& each : {own.query, own.key, own.value}) {
    ARGOSY_CHECK(
        each.dim() == 4 && each.size(kLength) == length &&
            each.size(0) == own.query.size(0) &&
            each.scalar_type() == own.query.scalar_type(),
        "[sequence_parallel.ulysses_attention] {} {}, expected [batch, heads, "
        "{}, dim], of one batch and type",
        each.scalar_type(),
        each.sizes(),
        length);
  }
  ARGOSY_CHECK(
      own.query.size(3) == own.key.size(3) &&
          own.key.size(kHeads) == own.value.size(kHeads),
      "[sequence_parallel.ulysses_attention] query {} does not match key {} "
      "and value {}",
      own.query.sizes(),
      own.key.sizes(),
      own.value.sizes());
}

} // namespace

at::Tensor ulysses_attention(
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    const SequenceSplit& split,
    const GroupPtr& group,
    const AttentionOptions& options,
    const AttentionFunction& attention) {
  const GroupPtr members =
      sequence_parallel::group_of_split(group, split, "ulysses_attention");
  const Qkv own{query, key, value};
  check_shapes(own, split.length(members->rank()));
  sequence_parallel::check_options(
      options, query.size(0), query.size(kLength), "ulysses_attention");
  const HeadExchange exchange(own, split, members);
  Qkv whole = exchange.to_heads(own);
  AttentionOptions of_heads =
      options_of_heads(options, split, exchange.heads(), members);
  // Positions matter only for a causal mask and for dropout: without these,
  // attention may see them in any order.
  const Sizes order = rank_order(split);
  const bool is_ordered = options.causal || options.dropout > 0;
  if (is_ordered) {
    const Sizes places = inverse(order);
    for (at::Tensor* each : {&whole.query, &whole.key, &whole.value}) {
      *each = select(*each, kLength, places);
    }
    if (of_heads.key_padding_mask.defined()) {
      of_heads.key_padding_mask = select(of_heads.key_padding_mask, 1, places);
    }
  }
  const std::int64_t per_key = query.size(kHeads) / key.size(kHeads);
  const at::Tensor out = attend(
      whole, keys_of_queries(exchange.heads(), per_key), of_heads, attention);
  return exchange.to_parts(is_ordered ? select(out, kLength, order) : out);
}

at::Tensor ulysses_attention(
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    const std::string& axis,
    const AttentionOptions& options) {
  const ProcessMesh mesh = process_mesh_of(query);
  const auto place = static_cast<std::size_t>(mesh.axis_index(axis));
  const Placements before = placements_of(query);
  const auto by_heads = [&](const at::Tensor& tensor) {
    Placements placements = placements_of(tensor);
    ARGOSY_CHECK(
        placements[place] == Shard(kLength),
        "[sequence_parallel.ulysses_attention] on axis {} the query, key or "
        "value is {}, expected {}",
        axis,
        placements[place],
        Shard(kLength));
    placements[place] = Shard(kHeads);
    return reshard(tensor, mesh, placements);
  };
  ARGOSY_CHECK(
      !options.dropout_seed,
      "[sequence_parallel.ulysses_attention] dropout_seed with DTensors, "
      "expected none: they draw their own random numbers");
  const c10::optional<at::Tensor> mask =
      mask_of_scores(options, query, mesh, place);
  // The op takes no scale: it always divides by the root, which a scaled query
  // undoes.
  const double root = std::sqrt(static_cast<double>(query.size(3)));
  const at::Tensor scaled =
      options.scale ? query * (*options.scale * root) : query;
  const at::Tensor out = std::get<0>(at::_scaled_dot_product_attention(
      by_heads(scaled),
      by_heads(key),
      by_heads(value),
      mask,
      options.dropout,
      false,
      options.causal && !mask));
  return reshard(out, mesh, before);
}

SegmentParallel::SegmentParallel(const GroupPtr& group, SequenceSplit split)
    : group_(sequence_parallel::group_of_split(group, split, "segment")),
      split_(std::move(split)) {}

at::Tensor SegmentParallel::part(
    const at::Tensor& whole, std::int64_t dim) const {
  ARGOSY_CHECK(
      whole.size(dim) == split_.total(),
      "[sequence_parallel.segment] dim {} of {}, expected the whole sequence "
      "of {}",
      dim,
      whole.sizes(),
      split_.total());
  return whole.index_select(dim, positions());
}

at::Tensor SegmentParallel::positions() const {
  return at::tensor(split_.positions(group_->rank()));
}

at::Tensor SegmentParallel::whole(
    const at::Tensor& part, std::int64_t dim) const {
  const Sizes lengths = lengths_of(split_);
  // c_concat needs parts of one size, so shorter ones are padded; `places` then
  // picks the real rows in the order of the sequence.
  const std::int64_t longest = *std::ranges::max_element(lengths);
  const at::Tensor rows = part.movedim(dim, 0);
  Sizes padding(2 * rows.dim(), 0); // of the last dim first
  padding.back() = longest - rows.size(0);
  const at::Tensor all =
      functional::c_concat(at::constant_pad_nd(rows, padding), group_, 0);
  Sizes places(split_.total());
  for (int rank = 0; rank < split_.nranks(); ++rank) {
    std::int64_t place = rank * longest;
    for (const std::int64_t position : split_.positions(rank)) {
      places[position] = place++;
    }
  }
  return select(all, 0, places).movedim(0, dim);
}

at::Tensor SegmentParallel::ulysses(
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    const AttentionOptions& options) const {
  return ulysses_attention(query, key, value, split_, group_, options);
}

at::Tensor SegmentParallel::ring(
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    const AttentionOptions& options) const {
  return ring_attention(query, key, value, split_, group_, options);
}

} // namespace argosy
