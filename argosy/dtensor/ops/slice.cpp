// Parts of a dim: slice, select, split and their gradients. When the dim is
// whole, these are local views; when it is cut, ranks give one another what
// they lack of the result and no more.

#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "argosy/dtensor/ops/dims.h"
#include "argosy/dtensor/ops/families.h"
#include "argosy/dtensor/ops/letters.h"
#include "argosy/dtensor/tensor/decision_cache.h"
#include "argosy/dtensor/tensor/dim_group.h"

namespace argosy::dtensor {

namespace {

// Every `step`th element of a dim.
struct Slice {
  std::int64_t start = 0;
  std::int64_t step = 1;
  std::int64_t size = 0; // of the result
};

Slice make_slice(
    std::int64_t n,
    const c10::IValue& start,
    const c10::IValue& end,
    std::int64_t step) {
  const auto bound = [n](const c10::IValue& value, std::int64_t otherwise) {
    const std::int64_t place = value.isInt() ? value.toInt() : otherwise;
    return std::clamp<std::int64_t>(place < 0 ? place + n : place, 0, n);
  };
  const std::int64_t first = bound(start, 0);
  const std::int64_t last = std::max(first, bound(end, n));
  return {first, step, (last - first + step - 1) / step};
}

// What of the result is in a part of the dim.
Range in_result(const Slice& slice, const Range& held) {
  // How many elements of the result come before `element` of the dim.
  const auto place = [&](std::int64_t element) {
    const std::int64_t beyond =
        std::max<std::int64_t>(element - slice.start, 0);
    return std::min((beyond + slice.step - 1) / slice.step, slice.size);
  };
  return {place(held.begin), place(held.end)};
}

Ranges in_result(const Slice& slice, const Ranges& held) {
  Ranges all;
  for (const Range& each : held) {
    all.push_back(in_result(slice, each));
  }
  return all;
}

// The elements of a part that are in the slice, as a view.
at::Tensor sliced_part(
    const at::Tensor& local, int dim, const Slice& slice, const Range& held) {
  const Range own = in_result(slice, held);
  const std::int64_t first =
      own.size() == 0 ? 0 : slice.start + own.begin * slice.step - held.begin;
  const std::int64_t end =
      own.size() == 0 ? 0 : first + (own.size() - 1) * slice.step + 1;
  return local.slice(dim, first, end, slice.step);
}

int dim_of(LocalCall& call, std::string_view name, std::int64_t ndim) {
  return static_cast<int>(
      wrapped(call.argument(name).toInt(), static_cast<std::size_t>(ndim)));
}

// The slice of a tensor of which this rank has a part.
at::Tensor run_cut_slice(
    LocalCall& call,
    const DimGroup& ranks,
    const Slice& slice,
    const Shape& out,
    const Placements& out_placements) {
  const at::Tensor local = call.argument(std::size_t{0}).toTensor();
  const Shape whole = call.original("self").toTensor().sizes().vec();
  // Each rank slices its part first, so that only elements of the result are
  // exchanged, in the result's coordinates.
  const Ranges held = ranks.ranges(whole, call.decision().inputs[0].placements);
  return ranks.exchange(
      sliced_part(local, ranks.dim(), slice, held[ranks.own()]),
      in_result(slice, held),
      ranks.ranges(out, out_placements));
}

DimGroup ranks_of_input(LocalCall& call, int dim) {
  return DimGroup(call.mesh(), dim, call.decision().inputs[0].placements);
}

// All dims but `dim` stay, at their place in the output. A cut `dim` stays cut
// if there is some of the result for every rank.
std::vector<Strategy> all_but(
    const OpCall& call, std::size_t dim, bool is_removed) {
  std::vector<Strategy> strategies;
  for (std::size_t d = 0; d < call.shape(0).size(); ++d) {
    if (d != dim) {
      const bool moves = is_removed && d > dim;
      strategies.push_back(call.strategy(
          Shard(static_cast<int>(d)), Shard(static_cast<int>(d - moves))));
    }
  }
  pass_first(strategies, call);
  return strategies;
}

bool is_enough(const OpCall& call, std::int64_t size) {
  return size >= call.axis_size();
}

constexpr char kSelf[] = "self";
constexpr char kGradOutput[] = "grad_output";

// Runs the op itself, unless the dim in question of its input is cut.
template <auto exchange, const char* input = kSelf>
void where_cut(LocalCall& call) {
  const at::Tensor whole = call.original(input).toTensor();
  const int dim = dim_of(call, "dim", whole.dim());
  const DimGroup ranks = ranks_of_input(call, dim);
  if (ranks.is_cut()) {
    exchange(call, whole, dim, ranks);
  } else {
    call.run();
  }
}

std::vector<Strategy> slice(const OpCall& call) {
  const std::size_t dim = wrapped(call.integer("dim", 0), call.shape(0).size());
  auto strategies = all_but(call, dim, false);
  const Placement cut = Shard(static_cast<int>(dim));
  const Shape& out = call.out_shape(0);
  if (out.size() == call.shape(0).size()) {
    const bool stays =
        out[dim] == call.shape(0)[dim] || is_enough(call, out[dim]);
    strategies.push_back(
        call.strategy(cut, stays ? cut : Placement(Replicate())));
  }
  return strategies;
}

void run_slice(
    LocalCall& call, const at::Tensor& whole, int dim, const DimGroup& ranks) {
  const Slice slice = make_slice(
      whole.size(dim),
      call.argument("start"),
      call.argument("end"),
      call.argument("step").toInt());
  const auto& out = call.decision().outputs[0];
  if (slice.size == whole.size(dim) &&
      out.placements == call.decision().inputs[0].placements) {
    // A slice of everything stays a view, so that writing to it reaches the
    // base.
    call.finish(call.argument("self").toTensor().alias());
    return;
  }
  call.finish(run_cut_slice(
      call, ranks, slice, out.tensors.at(0).shape, out.placements));
}

std::vector<Strategy> slice_backward(const OpCall& call) {
  const std::size_t dim = wrapped(call.integer("dim", 0), call.shape(0).size());
  auto strategies = all_but(call, dim, false);
  const Placement cut = Shard(static_cast<int>(dim));
  strategies.push_back(call.strategy(cut, cut));
  return strategies;
}

// Brings a gradient to where the elements are that it is of.
void run_slice_backward(
    LocalCall& call, const at::Tensor& grad, int dim, const DimGroup& ranks) {
  const Decision::Output& out = call.decision().outputs[0];
  const Shape& whole = out.tensors.at(0).shape;
  const Slice slice = make_slice(
      whole[static_cast<std::size_t>(dim)],
      call.argument("start"),
      call.argument("end"),
      call.argument("step").toInt());
  const at::Tensor local = call.argument("grad_output").toTensor();
  const Ranges held = ranks.ranges(whole, out.placements);
  const at::Tensor own = ranks.exchange(
      local,
      ranks.ranges(grad.sizes().vec(), call.decision().inputs[0].placements),
      in_result(slice, held));
  const at::Tensor result = at::zeros(out.tensors.at(0).local, local.options());
  // The rest of the dim is not in the slice and has a gradient of zero.
  sliced_part(result, dim, slice, held[ranks.own()]).copy_(own);
  call.finish(result);
}

// What is selected of a cut dim goes to all of its ranks.
std::vector<Strategy> select(const OpCall& call) {
  const std::size_t dim = wrapped(call.integer("dim", 0), call.shape(0).size());
  auto strategies = all_but(call, dim, true);
  strategies.push_back(
      call.strategy(Shard(static_cast<int>(dim)), Replicate()));
  return strategies;
}

void run_select(
    LocalCall& call, const at::Tensor& whole, int dim, const DimGroup& ranks) {
  const std::int64_t index = static_cast<std::int64_t>(wrapped(
      call.argument("index").toInt(),
      static_cast<std::size_t>(whole.size(dim))));
  const at::Tensor local = call.argument("self").toTensor();
  // Every rank wants the one element, which one rank has.
  const Ranges wanted(ranks.size(), Range{index, index + 1});
  const Ranges held =
      ranks.ranges(whole.sizes().vec(), call.decision().inputs[0].placements);
  call.finish(ranks.exchange(local, held, wanted).squeeze(dim));
}

std::vector<Strategy> select_backward(const OpCall& call) {
  const Shape& out = call.out_shape(0);
  if (out.size() != call.shape(0).size() + 1) {
    return {};
  }
  const std::string letters = letters_but(out.size(), call.integer("dim", 0));
  std::string grad = letters;
  grad.erase(wrapped(call.integer("dim", 0), out.size()), 1);
  auto strategies = by_letters(call, {grad}, {letters});
  pass_first(strategies, call);
  return strategies;
}

std::vector<Strategy> unbind(const OpCall& call) {
  return all_but(
      call, wrapped(call.integer("dim", 0), call.shape(0).size()), true);
}

// The sizes of the parts of a dim of `n` elements.
Shape split_sizes(const OpCall& call, std::int64_t n) {
  if (call.has("split_sizes")) {
    return call.integers("split_sizes");
  }
  const std::int64_t size = call.integer("split_size", n);
  Shape sizes;
  for (std::int64_t left = n; left > 0 && size > 0; left -= size) {
    sizes.push_back(std::min(size, left));
  }
  return sizes;
}

std::vector<Strategy> split(const OpCall& call) {
  const std::size_t dim = wrapped(call.integer("dim", 0), call.shape(0).size());
  auto strategies = all_but(call, dim, false);
  const Shape sizes = split_sizes(call, call.shape(0)[dim]);
  const bool all_have =
      std::ranges::all_of(sizes, [&](auto n) { return is_enough(call, n); });
  const Placement cut = Shard(static_cast<int>(dim));
  strategies.push_back(
      call.strategy(cut, all_have ? cut : Placement(Replicate())));
  return strategies;
}

void run_split(
    LocalCall& call,
    const at::Tensor& /*whole*/,
    int dim,
    const DimGroup& ranks) {
  const Decision::Output& out = call.decision().outputs[0];
  c10::List<at::Tensor> parts;
  Slice slice;
  for (const Expected& each : out.tensors) {
    // One exchange for each part; none where every rank has its share already.
    slice.size = each.shape[static_cast<std::size_t>(dim)];
    parts.push_back(
        run_cut_slice(call, ranks, slice, each.shape, out.placements));
    slice.start += slice.size;
  }
  call.finish(parts);
}

} // namespace

void add_slice_rules(RuleTable& table) {
  table.add(
      "slice slice_copy", {.strategies = slice, .run = where_cut<run_slice>});
  table.add(
      "slice_backward",
      {.strategies = slice_backward,
       .localize = local_input_sizes,
       .run = where_cut<run_slice_backward, kGradOutput>});
  table.add(
      "select select_copy",
      {.strategies = select, .run = where_cut<run_select>});
  table.add(
      "select_backward",
      {.strategies = select_backward, .localize = local_input_sizes});
  table.add("unbind unbind_copy", {.strategies = unbind});
  table.add(
      "split split_with_sizes split_copy split_with_sizes_copy unsafe_split "
      "unsafe_split_with_sizes",
      {.strategies = split, .run = where_cut<run_split>});
}

} // namespace argosy::dtensor
