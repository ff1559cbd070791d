// Ops that read elements by their place: index_select, gather, advanced
// indexing. Dims that are not indexed stay cut, and so does the result where
// the index is. Where the indexed dim itself is cut, each rank reads what it
// has, zeros for the rest, and the sum is the result.

#include <ATen/core/Tensor.h>
#include <ATen/ops/index_select.h>

#include "argosy/dtensor/ops/dims.h"
#include "argosy/dtensor/ops/families.h"
#include "argosy/dtensor/ops/index_dims.h"
#include "argosy/dtensor/ops/letters.h"
#include "argosy/dtensor/tensor/decision_cache.h"
#include "argosy/dtensor/tensor/mesh_state.h"

namespace argosy::dtensor {

namespace {

// Reducing the result later must cost less than gathering the input now: an
// all-reduce receives about twice the result, an all-gather about the input
// once. Booleans cannot be summed.
bool is_sum_cheaper(const OpCall& call) {
  return 2 * numel(call.out_shape(0)) <= numel(call.shape(0)) &&
      call.tensor("self").scalar_type() != at::kBool;
}

void offer_sum(
    std::vector<Strategy>& strategies, const OpCall& call, std::size_t dim) {
  if (is_sum_cheaper(call)) {
    strategies.push_back(
        call.strategy(Shard(static_cast<int>(dim)), Partial()));
  }
}

std::vector<Strategy> index_select(const OpCall& call) {
  const std::size_t ndim = call.shape(0).size();
  if (ndim == 0 || call.shape(1).size() != 1) {
    return {};
  }
  const std::size_t dim = wrapped(call.integer("dim", 0), ndim);
  std::string out = first_letters(ndim);
  const std::string index(1, out[dim]);
  std::string self = out;
  self[dim] = '-';
  auto strategies = by_letters(call, {self, index}, {out});
  pass_first(strategies, call);
  offer_sum(strategies, call, dim);
  return strategies;
}

std::vector<Shape> index_select_shape(const OpCall& call) {
  Shape shape = call.shape(0);
  if (!shape.empty()) {
    shape[wrapped(call.integer("dim", 0), shape.size())] = numel(call.shape(1));
  }
  return {shape};
}

// The index may be shorter than the input in other dims too, which then stay
// whole.
std::vector<Strategy> gather(const OpCall& call) {
  const Shape& self = call.shape(0);
  const Shape& index = call.shape(1);
  if (self.empty() || self.size() != index.size()) {
    return {};
  }
  const std::size_t dim = wrapped(call.integer("dim", 0), self.size());
  std::string letters = first_letters(self.size());
  for (std::size_t d = 0; d < self.size(); ++d) {
    if (d != dim && self[d] != index[d]) {
      letters[d] = '-';
    }
  }
  std::string own = letters;
  own[dim] = '-';
  auto strategies = by_letters(call, {own, letters}, {letters});
  pass_first(strategies, call);
  offer_sum(strategies, call, dim);
  return strategies;
}

// Reads with the index of this rank's part. What other ranks have is read from
// a spare element of zero behind the part, so that the ranks' results, which
// have no element in common, add up to the whole. Copies the part once.
void run_by_index(LocalCall& call) {
  const at::Tensor whole = call.original("self").toTensor();
  const std::size_t dim = wrapped(
      call.argument("dim").toInt(), static_cast<std::size_t>(whole.dim()));
  const LocalIndex index =
      local_index(call, dim, call.argument("index").toTensor(), whole.sizes());
  if (index.is_whole) {
    call.run();
    return;
  }
  const at::Tensor self = call.argument("self").toTensor();
  const at::Tensor padded = with_spare(self, dim);
  padded.narrow(static_cast<std::int64_t>(dim), self.size(dim), 1).zero_();
  call.argument("self") = padded;
  call.argument("index") = index.places;
  call.run();
}

std::vector<Strategy> index(const OpCall& call) {
  const IndexDims dims = index_dims(call, call.inputs("indices"));
  if (!call.knows_outputs() || dims.out.size() != call.out_shape(0).size()) {
    return {}; // by masks: how many there are is not known
  }
  std::vector<std::string> inputs{dims.self};
  inputs.insert(inputs.end(), dims.indices.begin(), dims.indices.end());
  auto strategies = by_letters(call, inputs, {dims.out});
  pass_first(strategies, call);
  if (dims.only_dim >= 0) {
    offer_sum(strategies, call, static_cast<std::size_t>(dims.only_dim));
  }
  return strategies;
}

void run_index(LocalCall& call) {
  const at::Tensor whole = call.original("self").toTensor();
  auto indices = call.argument("indices").toOptionalTensorVector();
  const int dim = only_index(indices);
  // index() offers to cut the indexed dim only where there is one index, so
  // with several, or with a mask, indexed dims are whole.
  if (dim < 0) {
    call.run();
    return;
  }
  auto& own = indices[static_cast<std::size_t>(dim)];
  const LocalIndex index =
      local_index(call, static_cast<std::size_t>(dim), *own, whole.sizes());
  if (index.is_whole) {
    call.run();
    return;
  }
  const at::Tensor self = call.argument("self").toTensor();
  const at::Tensor padded = with_spare(self, static_cast<std::size_t>(dim));
  padded.narrow(dim, self.size(dim), 1).zero_();
  own = index.places;
  call.argument("self") = padded;
  call.argument("indices") = c10::List<c10::optional<at::Tensor>>(indices);
  call.run();
}

// Of the flattened tensor.
std::vector<Strategy> take(const OpCall& call) {
  const std::string index = first_letters(call.shape(1).size());
  return by_letters(call, {"", index}, {index});
}

// The sequences are whole; what is searched for may be cut anywhere, or along
// with the sequences where these have the same dims.
std::vector<Strategy> search(
    const OpCall& call, std::size_t sequence, std::size_t values) {
  const std::size_t ndim = call.shape(values).size();
  const std::string letters = first_letters(ndim);
  std::vector<std::string> inputs(2);
  inputs[values] = letters;
  const bool is_one = call.shape(sequence).size() == 1;
  inputs[sequence] = is_one ? "-" : letters_but(ndim, std::int64_t{-1});
  if (call.has("sorter")) {
    inputs.push_back(inputs[sequence]);
  }
  return by_letters(call, inputs, {letters});
}

std::vector<Strategy> searchsorted(const OpCall& call) {
  return search(call, 0, 1);
}

std::vector<Strategy> bucketize(const OpCall& call) {
  return search(call, 1, 0);
}

std::vector<Shape> shape_of_second(const OpCall& call) {
  return {call.shape(1)};
}

} // namespace

void add_index_rules(RuleTable& table) {
  table.add(
      "index_select",
      {.strategies = index_select,
       .shapes = index_select_shape,
       .run = run_by_index});
  table.add("gather", {.strategies = gather, .run = run_by_index});
  table.add("index", {.strategies = index, .run = run_index});
  table.add("take", {.strategies = take, .shapes = shape_of_second});
  table.add(
      "searchsorted.Tensor",
      {.strategies = searchsorted, .shapes = shape_of_second});
  table.add(
      "bucketize.Tensor", {.strategies = bucketize, .shapes = shape_of_first});
  // How many elements there are depends on their values.
  table.add(
      "_unique _unique2 bincount histc masked_scatter masked_select nonzero "
      "unique_consecutive unique_dim",
      {});
}

} // namespace argosy::dtensor
