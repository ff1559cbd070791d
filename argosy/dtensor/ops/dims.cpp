#include "argosy/dtensor/ops/dims.h"

#include "argosy/dtensor/ops/letters.h"

namespace argosy::dtensor {

std::size_t wrapped(std::int64_t dim, std::size_t ndim) {
  const auto n = static_cast<std::int64_t>(ndim);
  return static_cast<std::size_t>(dim < 0 ? dim + n : dim);
}

std::string letters_but(std::size_t ndim, const Shape& whole) {
  std::string letters = first_letters(ndim);
  for (const std::int64_t dim : whole) {
    const std::size_t place = wrapped(dim, ndim);
    if (place < ndim) {
      letters[place] = '-';
    }
  }
  return letters;
}

std::string letters_but(std::size_t ndim, std::int64_t whole) {
  return letters_but(ndim, Shape{whole});
}

bool is_linear(Placement placement) {
  return placement.is_partial() &&
      (placement.op() == comm::ReduceOp::SUM ||
       placement.op() == comm::ReduceOp::AVG);
}

Strategy everywhere(const OpCall& call, Placement placement) {
  Strategy strategy = call.strategy();
  strategy.inputs.assign(call.num_inputs(), placement);
  strategy.outputs.assign(call.num_outputs(), placement);
  return strategy;
}

void pass_first(std::vector<Strategy>& strategies, const OpCall& call) {
  if (call.current(0).is_partial()) {
    strategies.push_back(call.strategy(call.current(0), call.current(0)));
  }
}

void pass_first_linear(std::vector<Strategy>& strategies, const OpCall& call) {
  if (is_linear(call.current(0))) {
    pass_first(strategies, call);
  }
}

void pass_all(std::vector<Strategy>& strategies, const OpCall& call) {
  const Placement first = call.current(0);
  for (std::size_t i = 0; i < call.num_inputs(); ++i) {
    if (!first.is_partial() || call.current(i) != first) {
      return;
    }
  }
  strategies.push_back(everywhere(call, first));
}

bool may_leave_empty_parts(
    const OpCall& call, std::size_t input, std::size_t dim) {
  const std::int64_t n = call.shape(input)[dim];
  const std::int64_t chunk = chunk_size(n, call.axis_size());
  return !call.is_even(input, dim) &&
      (call.is_cut_unevenly(input, dim) || chunk * (call.axis_size() - 1) >= n);
}

std::vector<Shape> shape_of_first(const OpCall& call) {
  return std::vector<Shape>(call.num_outputs(), call.shape(0));
}

std::vector<Shape> shape_of_input_sizes(const OpCall& call) {
  return {call.integers("input_sizes")};
}

Arguments local_size(const OpCall&, const std::vector<Shape>& local_outs) {
  return {{"size", c10::IValue(local_outs[0])}};
}

Arguments local_input_sizes(
    const OpCall&, const std::vector<Shape>& local_outs) {
  return {{"input_sizes", c10::IValue(local_outs[0])}};
}

} // namespace argosy::dtensor
