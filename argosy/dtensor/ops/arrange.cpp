// Ops that put elements side by side or in another order: cat, stack, flip,
// roll, repeat, pad, diagonals, triangles.

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include "argosy/dtensor/ops/dims.h"
#include "argosy/dtensor/ops/families.h"
#include "argosy/dtensor/ops/letters.h"
#include "argosy/dtensor/tensor/decision_cache.h"
#include "argosy/dtensor/tensor/dim_group.h"
#include "argosy/dtensor/tensor/mesh_state.h"

namespace argosy::dtensor {

namespace {

std::vector<std::string> for_all_inputs(
    const OpCall& call, const std::string& letters) {
  return std::vector<std::string>(call.num_inputs(), letters);
}

bool have_equal_dims(const OpCall& call) {
  for (std::size_t i = 1; i < call.num_inputs(); ++i) {
    if (call.shape(i).size() != call.shape(0).size()) {
      return false;
    }
  }
  return call.num_inputs() > 0;
}

// Along a dim that is cut, ranks give one another what belongs elsewhere in
// the result.
std::vector<Strategy> cat(const OpCall& call) {
  if (!have_equal_dims(call)) {
    return {};
  }
  const std::string letters = first_letters(call.shape(0).size());
  auto strategies = by_letters(call, for_all_inputs(call, letters), {letters});
  pass_all(strategies, call);
  return strategies;
}

void run_cat(LocalCall& call) {
  const c10::IValue tensors = call.original("tensors");
  const at::Tensor first = tensors.toListRef().front().toTensor();
  const auto dim = static_cast<int>(wrapped(
      call.argument("dim").toInt(), static_cast<std::size_t>(first.dim())));
  const Decision& decision = call.decision();
  const DimGroup ranks(call.mesh(), dim, decision.inputs[0].placements);
  if (!ranks.is_cut()) {
    call.run();
    return;
  }
  const Expected& expected = decision.outputs[0].tensors.at(0);
  const Ranges wanted =
      ranks.ranges(expected.shape, decision.outputs[0].placements);
  const auto locals = call.argument("tensors").toTensorVector();
  const at::Tensor out =
      at::empty(expected.local, locals[0].options().dtype(expected.dtype));
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < locals.size(); ++i) {
    const at::Tensor whole = tensors.toListRef()[i].toTensor();
    const std::int64_t size = whole.size(dim);
    Ranges have =
        ranks.ranges(whole.sizes().vec(), decision.inputs[i].placements);
    Ranges parts;
    for (std::size_t member = 0; member < ranks.size(); ++member) {
      have[member].begin += begin;
      have[member].end += begin;
      parts.push_back(overlap(wanted[member], {begin, begin + size}));
    }
    const at::Tensor part = ranks.exchange(locals[i], have, parts);
    const Range place = within(parts[ranks.own()], wanted[ranks.own()]);
    if (place.size() > 0) {
      out.narrow(dim, place.begin, place.size()).copy_(part);
    }
    begin += size;
  }
  call.finish(out);
}

std::vector<Strategy> stack(const OpCall& call) {
  if (!have_equal_dims(call)) {
    return {};
  }
  const std::string letters = first_letters(call.shape(0).size());
  std::string out = letters;
  out.insert(wrapped(call.integer("dim", 0), letters.size() + 1), 1, '-');
  auto strategies = by_letters(call, for_all_inputs(call, letters), {out});
  pass_all(strategies, call);
  return strategies;
}

std::vector<Strategy> flip(const OpCall& call) {
  const std::string letters = first_letters(call.shape(0).size());
  auto strategies = by_letters(call, {letters}, {letters});
  pass_first(strategies, call);
  return strategies;
}

// Each part in reverse order is a part of the result, of the other end.
void run_flip(LocalCall& call) {
  const Decision& decision = call.decision();
  const at::Tensor whole = call.original("self").toTensor();
  const Shape shape = whole.sizes().vec();
  at::Tensor part = call.argument("self").toTensor().flip(
      call.argument("dims").toIntVector());
  for (const std::int64_t named : call.argument("dims").toIntVector()) {
    const std::size_t dim = wrapped(named, shape.size());
    const DimGroup ranks(
        call.mesh(), static_cast<int>(dim), decision.inputs[0].placements);
    const Ranges held = ranks.ranges(shape, decision.inputs[0].placements);
    Ranges have;
    for (const Range& each : held) {
      have.push_back({shape[dim] - each.end, shape[dim] - each.begin});
    }
    part = ranks.exchange(part, have, held);
  }
  call.finish(part);
}

std::vector<Strategy> roll(const OpCall& call) {
  const Shape dims = call.integers("dims");
  if (dims.empty()) {
    return {}; // of the flattened tensor
  }
  const std::string letters = letters_but(call.shape(0).size(), dims);
  auto strategies = by_letters(call, {letters}, {letters});
  pass_first(strategies, call);
  return strategies;
}

std::vector<Strategy> repeat(const OpCall& call) {
  const Shape repeats = call.integers("repeats");
  const std::size_t ndim = call.shape(0).size();
  if (repeats.size() < ndim) {
    return {};
  }
  std::string out = first_letters(repeats.size());
  for (std::size_t dim = 0; dim < repeats.size(); ++dim) {
    if (repeats[dim] != 1) {
      out[dim] = '-';
    }
  }
  auto strategies =
      by_letters(call, {out.substr(repeats.size() - ndim)}, {out});
  pass_first(strategies, call);
  return strategies;
}

// What is kept depends on the place in the whole matrix.
std::vector<Strategy> triangle(const OpCall& call) {
  const std::string letters = first_letters(call.shape(0).size());
  auto strategies = by_letters(call, {letters}, {letters});
  pass_first_linear(strategies, call);
  return strategies;
}

void run_triangle(LocalCall& call) {
  const auto shape = call.original("self").toTensor().sizes();
  const Shape offset =
      call.mesh().local_box(shape, call.decision().inputs[0].placements).offset;
  const std::size_t ndim = offset.size();
  if (ndim >= 2) {
    call.argument("diagonal") =
        call.argument("diagonal").toInt() + offset[ndim - 2] - offset[ndim - 1];
  }
  call.run();
}

// Before and after each dim.
struct Padding {
  std::int64_t before = 0;
  std::int64_t after = 0;
};

// The last dim is named first.
std::vector<Padding> paddings(const Shape& pad, std::size_t ndim) {
  std::vector<Padding> all(ndim);
  for (std::size_t i = 0; i < pad.size() / 2 && i < ndim; ++i) {
    all[ndim - 1 - i] = {pad[2 * i], pad[2 * i + 1]};
  }
  return all;
}

std::vector<Strategy> pad(const OpCall& call) {
  const std::string letters = first_letters(call.shape(0).size());
  return by_letters(call, {letters}, {letters});
}

// Of each dim what the result has of it, put into what is filled.
void run_pad(LocalCall& call) {
  const Decision& decision = call.decision();
  const Expected& expected = decision.outputs[0].tensors.at(0);
  const Shape shape = call.original("self").toTensor().sizes().vec();
  const auto pads = paddings(call.argument("pad").toIntVector(), shape.size());
  at::Tensor part = call.argument("self").toTensor();
  const at::Tensor out = at::full(
      expected.local, call.argument("value").toScalar(), part.options());
  at::Tensor inner = out;
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    const DimGroup ranks(
        call.mesh(), static_cast<int>(dim), decision.inputs[0].placements);
    const Range whole{0, shape[dim]};
    const Ranges outs =
        ranks.ranges(expected.shape, decision.outputs[0].placements);
    Ranges wanted;
    for (const Range& each : outs) {
      wanted.push_back(overlap(
          {each.begin - pads[dim].before, each.end - pads[dim].before}, whole));
    }
    part = ranks.exchange(
        part, ranks.ranges(shape, decision.inputs[0].placements), wanted);
    const Range& own = wanted[ranks.own()];
    if (own.size() > 0) {
      inner = inner.narrow(
          static_cast<std::int64_t>(dim),
          own.begin + pads[dim].before - outs[ranks.own()].begin,
          own.size());
    }
  }
  if (part.numel() > 0) {
    inner.copy_(part);
  }
  call.finish(out);
}

struct DiagonalDims {
  std::string in;
  std::string out;
};

// The diagonal of two dims becomes the last.
DiagonalDims diagonal_dims(const OpCall& call, std::size_t ndim) {
  DiagonalDims dims{first_letters(ndim), ""};
  const std::size_t first = wrapped(call.integer("dim1", 0), ndim);
  const std::size_t second = wrapped(call.integer("dim2", 1), ndim);
  for (std::size_t dim = 0; dim < ndim; ++dim) {
    if (dim == first || dim == second) {
      dims.in[dim] = '-';
    } else {
      dims.out += dims.in[dim];
    }
  }
  dims.out += '-';
  return dims;
}

std::vector<Strategy> diagonal(const OpCall& call) {
  const DiagonalDims dims = diagonal_dims(call, call.shape(0).size());
  auto strategies = by_letters(call, {dims.in}, {dims.out});
  pass_first(strategies, call);
  return strategies;
}

std::vector<Strategy> diagonal_backward(const OpCall& call) {
  const DiagonalDims dims = diagonal_dims(call, call.out_shape(0).size());
  if (dims.out.size() != call.shape(0).size()) {
    return {};
  }
  auto strategies = by_letters(call, {dims.out}, {dims.in});
  pass_first_linear(strategies, call);
  return strategies;
}

// The dim becomes two: of the windows, and of the places in one.
std::vector<Strategy> unfold(const OpCall& call) {
  const std::string letters =
      letters_but(call.shape(0).size(), call.integer("dimension", 0));
  auto strategies = by_letters(call, {letters}, {letters + "-"});
  pass_first(strategies, call);
  return strategies;
}

std::vector<Strategy> unfold_backward(const OpCall& call) {
  const std::string letters =
      letters_but(call.shape(0).size() - 1, call.integer("dim", 0));
  auto strategies = by_letters(call, {letters + "-"}, {letters});
  pass_first_linear(strategies, call);
  return strategies;
}

} // namespace

void add_arrange_rules(RuleTable& table) {
  table.add("cat", {.strategies = cat, .run = run_cat});
  table.add("stack", {.strategies = stack});
  table.add(
      "flip", {.strategies = flip, .shapes = shape_of_first, .run = run_flip});
  table.add("roll", {.strategies = roll, .shapes = shape_of_first});
  table.add("repeat", {.strategies = repeat});
  table.add("tril triu", {.strategies = triangle, .run = run_triangle});
  table.add("constant_pad_nd", {.strategies = pad, .run = run_pad});
  table.add("diagonal", {.strategies = diagonal});
  table.add(
      "diagonal_backward",
      {.strategies = diagonal_backward, .localize = local_input_sizes});
  table.add("unfold", {.strategies = unfold});
  table.add(
      "unfold_backward",
      {.strategies = unfold_backward,
       .shapes = shape_of_input_sizes,
       .localize = local_input_sizes});
}

} // namespace argosy::dtensor
