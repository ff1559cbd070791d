// Ops that write elements by their place: scatter, index_put, index_add and
// the like. Dims that are not indexed may be cut. Where the indexed dim is,
// each rank writes what is for its own part.

#include <ATen/core/Tensor.h>

#include <algorithm>

#include "argosy/dtensor/ops/dims.h"
#include "argosy/dtensor/ops/families.h"
#include "argosy/dtensor/ops/index_dims.h"
#include "argosy/dtensor/ops/letters.h"
#include "argosy/dtensor/tensor/decision_cache.h"

namespace argosy::dtensor {

namespace {

// The target cut along the indexed dim, and all that is written on all ranks.
void offer_own_part(
    std::vector<Strategy>& strategies, const OpCall& call, std::size_t dim) {
  const Placement cut = Shard(static_cast<int>(dim));
  strategies.push_back(call.strategy(cut, cut));
}

// What is added may be cut as it likes where the target is Partial: each rank
// adds its share.
void offer_shares(
    std::vector<Strategy>& strategies,
    const OpCall& call,
    const std::vector<std::string>& inputs) {
  if (call.current(0) != Partial()) {
    return;
  }
  for (Strategy& each : by_letters(call, inputs, {})) {
    each.inputs[0] = Partial();
    each.outputs.assign(call.num_outputs(), Partial());
    strategies.push_back(std::move(each));
  }
}

bool adds(const OpCall& call) {
  return call.name().starts_with("aten::scatter_add") ||
      call.name().starts_with("aten::index_add") ||
      call.flag("accumulate", false);
}

// Target, index and source have the same dims; those where they are not as
// long stay whole.
std::vector<Strategy> scatter(const OpCall& call) {
  const Shape& self = call.shape(0);
  if (self.empty() || self.size() != call.shape(1).size()) {
    return {};
  }
  const std::size_t dim = wrapped(call.integer("dim", 0), self.size());
  std::string letters = first_letters(self.size());
  // `letters` may cut a dim of all tensors alike; `shares` only of index and
  // source, which may be shorter than the target.
  std::string shares = letters;
  for (std::size_t d = 0; d < self.size(); ++d) {
    for (std::size_t i = 1; i < call.num_inputs(); ++i) {
      const Shape& other = call.shape(i);
      if (other.size() != self.size()) {
        return {};
      }
      letters[d] = other[d] == self[d] ? letters[d] : '-';
      shares[d] = other[d] == call.shape(1)[d] ? shares[d] : '-';
    }
  }
  letters[dim] = '-';
  const std::vector<std::string> all(call.num_inputs(), letters);
  auto strategies = by_letters(call, all, {letters});
  offer_own_part(strategies, call, dim);
  if (adds(call) && call.num_inputs() == 3) {
    // Along other dims the index of an element says where it goes.
    std::string along(shares.size(), '-');
    along[dim] = shares[dim];
    offer_shares(strategies, call, {"", along, along});
  }
  return strategies;
}

// The index has one dim, the source those of the target.
std::vector<Strategy> by_one_dim(const OpCall& call) {
  const Shape& self = call.shape(0);
  if (self.empty() || call.shape(1).size() > 1) {
    return {};
  }
  const std::size_t dim = wrapped(call.integer("dim", 0), self.size());
  std::string letters = first_letters(self.size());
  std::string source = letters;
  letters[dim] = '-';
  const bool has_source =
      call.num_inputs() > 2 && call.shape(2).size() == self.size();
  const std::string index = call.shape(1).empty() ? "" : "-";
  auto strategies =
      by_letters(call, {letters, index, has_source ? letters : ""}, {letters});
  offer_own_part(strategies, call, dim);
  if (adds(call) && has_source && !index.empty()) {
    std::string along(source.size(), '-');
    along[dim] = source[dim];
    offer_shares(strategies, call, {"", std::string(1, along[dim]), along});
  }
  return strategies;
}

// Letters but for those of small, or of capital, letters: of the indices, or of
// the target.
std::string without(std::string letters, bool (*is_dropped)(char)) {
  std::replace_if(letters.begin(), letters.end(), is_dropped, '-');
  return letters;
}

bool is_small(char letter) {
  return letter >= 'a';
}

bool is_capital(char letter) {
  return letter < 'a';
}

bool is_mask(const at::Tensor& index) {
  return index.scalar_type() == at::kBool || index.scalar_type() == at::kByte;
}

// One value for all elements of a mask: each is on its own.
std::vector<Strategy> masked_put(
    const OpCall& call, const std::vector<at::Tensor>& indices) {
  const std::size_t values = call.num_inputs() - 1;
  if (indices.size() != 1 || numel(call.shape(values)) != 1) {
    return {};
  }
  const std::string letters = first_letters(call.shape(0).size());
  const std::string mask = letters.substr(0, call.shape(1).size());
  return by_letters(
      call,
      {letters, mask, std::string(call.shape(values).size(), '-')},
      {letters});
}

std::vector<Strategy> index_put(const OpCall& call) {
  const auto indices = call.tensors("indices");
  if (std::ranges::any_of(indices, is_mask)) {
    return masked_put(call, indices);
  }
  const IndexDims dims = index_dims(call, call.inputs("indices"));
  const std::size_t values = call.num_inputs() - 1;
  if (dims.out.empty() || dims.out.size() < call.shape(values).size()) {
    return {};
  }
  const std::string source =
      broadcast_letters(dims.out, call.shape(values), dims.out_shape);
  std::vector<std::string> inputs{dims.self};
  std::vector<std::string> shares{""};
  for (const std::string& each : dims.indices) {
    inputs.push_back(without(each, is_small));
    shares.push_back(each);
  }
  inputs.push_back(without(source, is_small));
  shares.push_back(without(source, is_capital));
  auto strategies = by_letters(call, inputs, {dims.self});
  if (dims.only_dim >= 0) {
    offer_own_part(strategies, call, static_cast<std::size_t>(dims.only_dim));
  }
  if (adds(call)) {
    offer_shares(strategies, call, shares);
  }
  return strategies;
}

// Runs on a copy of the part with a spare element behind it, which takes what
// is meant for other ranks and is dropped after. An in-place op also writes to
// the copy; write_back() in execute.cpp copies the result to the original.
void run_with_spare(LocalCall& call, std::size_t dim) {
  const at::Tensor self = call.argument("self").toTensor();
  const auto along = static_cast<std::int64_t>(dim);
  call.argument("self") = with_spare(self, dim);
  call.run();
  at::Tensor result = call.result().toTensor();
  call.result() = result.narrow(along, 0, self.size(along)).contiguous();
}

void run_by_dim(LocalCall& call) {
  const at::Tensor whole = call.original("self").toTensor();
  const std::size_t dim = wrapped(
      call.argument("dim").toInt(), static_cast<std::size_t>(whole.dim()));
  const at::Tensor index = call.argument("index").toTensor();
  const LocalIndex own = whole.dim() == 0
      ? LocalIndex{}
      : local_index(call, dim, index, whole.sizes());
  if (own.is_whole) {
    call.run();
    return;
  }
  call.argument("index") = own.places;
  run_with_spare(call, dim);
}

void run_index_put(LocalCall& call) {
  auto indices = call.argument("indices").toOptionalTensorVector();
  const int dim = only_index(indices);
  if (dim < 0) {
    call.run();
    return;
  }
  auto& index = indices[static_cast<std::size_t>(dim)];
  const LocalIndex own = local_index(
      call,
      static_cast<std::size_t>(dim),
      *index,
      call.original("self").toTensor().sizes());
  if (own.is_whole) {
    call.run();
    return;
  }
  index = own.places;
  call.argument("indices") = c10::List<c10::optional<at::Tensor>>(indices);
  run_with_spare(call, static_cast<std::size_t>(dim));
}

} // namespace

void add_scatter_rules(RuleTable& table) {
  table.add(
      "scatter scatter_add scatter_reduce",
      {.strategies = scatter, .run = run_by_dim});
  table.add(
      "index_add index_copy index_fill index_reduce",
      {.strategies = by_one_dim, .run = run_by_dim});
  table.add(
      "index_put _index_put_impl_",
      {.strategies = index_put, .run = run_index_put});
}

} // namespace argosy::dtensor
