// Layer and group norms. What is normalised together stays whole; samples may
// be cut, and groups. The gradients of the weights add up over samples.

#include <ATen/core/Tensor.h>

#include "argosy/dtensor/ops/families.h"

namespace argosy::dtensor {

namespace {

std::size_t num_normalized(const OpCall& call) {
  return call.integers("normalized_shape").size();
}

// Inputs are the tensor, and perhaps weight and bias.
std::vector<Strategy> layer_norm(const OpCall& call) {
  std::vector<Strategy> strategies;
  for (std::size_t dim = 0; dim + num_normalized(call) < call.shape(0).size();
       ++dim) {
    const Placement shard = Shard(static_cast<int>(dim));
    strategies.push_back(call.strategy(shard, shard));
  }
  return strategies;
}

std::vector<Shape> layer_norm_shapes(const OpCall& call) {
  const Shape& in = call.shape(0);
  Shape statistics = in;
  for (std::size_t i = 0; i < num_normalized(call) && i < in.size(); ++i) {
    statistics[in.size() - 1 - i] = 1;
  }
  return {in, statistics, statistics};
}

// Inputs are grad_out, input, mean, rstd, and perhaps weight and bias.
std::vector<Strategy> layer_norm_backward(const OpCall& call) {
  std::vector<Strategy> strategies;
  for (std::size_t dim = 0; dim + num_normalized(call) < call.shape(0).size();
       ++dim) {
    const Placement shard = Shard(static_cast<int>(dim));
    Strategy strategy = call.strategy(shard, Partial());
    strategy.inputs[1] = strategy.inputs[2] = strategy.inputs[3] = shard;
    strategy.outputs[0] = shard;
    strategies.push_back(std::move(strategy));
  }
  return strategies;
}

std::vector<Shape> layer_norm_backward_shapes(const OpCall& call) {
  const Shape weight = call.integers("normalized_shape");
  return {call.shape(0), weight, weight};
}

// Whether all ranks of the axis get whole groups, and equally many.
bool can_cut_groups(
    const OpCall& call, std::size_t input, std::int64_t groups) {
  return call.is_even(input, 1) && groups % call.axis_size() == 0;
}

std::vector<Strategy> group_norm(const OpCall& call) {
  std::vector<Strategy> strategies{call.strategy(Shard(0), Shard(0))};
  if (can_cut_groups(call, 0, call.out_shape(1)[1])) {
    Strategy strategy = call.strategy();
    strategy.inputs.assign(call.num_inputs(), Shard(0)); // weight and bias
    strategy.inputs[0] = Shard(1);
    strategy.outputs.assign(3, Shard(1));
    strategies.push_back(std::move(strategy));
  }
  return strategies;
}

std::vector<Shape> group_norm_shapes(const OpCall& call) {
  const Shape statistics{call.integer("N", 0), call.integer("group", 1)};
  return {call.shape(0), statistics, statistics};
}

// Inputs are grad_out, input, mean, rstd, and perhaps weight.
std::vector<Strategy> group_norm_backward(const OpCall& call) {
  Strategy by_samples = call.strategy(Shard(0), Partial());
  by_samples.outputs[0] = Shard(0);
  for (const std::size_t i : {1, 2, 3}) {
    by_samples.inputs[i] = Shard(0);
  }
  std::vector<Strategy> strategies{std::move(by_samples)};
  if (can_cut_groups(call, 1, call.shape(2)[1])) {
    Strategy strategy = call.strategy();
    strategy.inputs.assign(call.num_inputs(), Shard(1));
    if (call.num_inputs() > 4) {
      strategy.inputs[4] = Shard(0);
    }
    strategy.outputs = {Shard(1), Shard(0), Shard(0)};
    strategies.push_back(std::move(strategy));
  }
  return strategies;
}

std::vector<Shape> group_norm_backward_shapes(const OpCall& call) {
  const Shape weight{call.integer("C", 0)};
  return {call.shape(1), weight, weight};
}

// Of a rank's part.
void localize_groups(LocalCall& call) {
  const at::Tensor input = call.argument("input").toTensor();
  const std::int64_t channels = call.argument("C").toInt();
  if (channels != 0) {
    call.argument("group") =
        call.argument("group").toInt() * input.size(1) / channels;
  }
  call.argument("N") = input.size(0);
  call.argument("C") = input.size(1);
}

void run_group_norm(LocalCall& call) {
  call.make_contiguous({"input"});
  localize_groups(call);
  call.run();
}

void run_group_norm_backward(LocalCall& call) {
  localize_groups(call);
  call.run();
}

} // namespace

void add_norm_rules(RuleTable& table) {
  table.add(
      "native_layer_norm",
      {.strategies = layer_norm, .shapes = layer_norm_shapes});
  table.add(
      "native_layer_norm_backward",
      {.strategies = layer_norm_backward,
       .shapes = layer_norm_backward_shapes});
  table.add(
      "native_group_norm",
      {.strategies = group_norm,
       .shapes = group_norm_shapes,
       .run = run_group_norm});
  table.add(
      "native_group_norm_backward",
      {.strategies = group_norm_backward,
       .shapes = group_norm_backward_shapes,
       .run = run_group_norm_backward});
}

} // namespace argosy::dtensor
