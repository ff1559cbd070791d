// Ops that make each element of the result from one element of each input, with
// broadcasting. Shards go through; Partial goes through what is linear.

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_strided.h>

#include "argosy/dtensor/ops/dims.h"
#include "argosy/dtensor/ops/families.h"
#include "argosy/dtensor/ops/letters.h"
#include "argosy/dtensor/tensor/decision_cache.h"

namespace argosy::dtensor {

namespace {

std::vector<Strategy> shards(const OpCall& call) {
  const Shape& out = call.out_shape(0);
  const std::string letters = first_letters(out.size());
  std::vector<std::string> inputs;
  for (std::size_t i = 0; i < call.num_inputs(); ++i) {
    if (call.shape(i).size() > out.size()) {
      return {}; // the shape of the result is not known
    }
    inputs.push_back(broadcast_letters(letters, call.shape(i), out));
  }
  return by_letters(
      call, inputs, std::vector<std::string>(call.num_outputs(), letters));
}

std::vector<Shape> shapes(const OpCall& call) {
  return std::vector<Shape>(call.num_outputs(), broadcast_shape(call));
}

// f(a + b) = f(a) + f(b), of one tensor.
std::vector<Strategy> linear(const OpCall& call) {
  std::vector<Strategy> strategies = shards(call);
  if (call.num_inputs() == 1 && is_linear(call.current(0))) {
    strategies.push_back(everywhere(call, call.current(0)));
  }
  return strategies;
}

// A change of type is linear as long as nothing is cut off.
std::vector<Strategy> cast(const OpCall& call) {
  return call.has("dtype") ? shards(call) : linear(call);
}

// Sums and differences of two tensors. One that is broadcast may become Partial
// for the other's sake, as a bias does; one of full size is not worth it.
std::vector<Strategy> additive(const OpCall& call) {
  std::vector<Strategy> strategies = shards(call);
  if (call.num_inputs() != 2) {
    return strategies; // with a number: not linear
  }
  for (std::size_t i : {0u, 1u}) {
    const std::size_t other = 1 - i;
    const bool is_small = numel(call.shape(other)) < numel(call.shape(i));
    if (is_linear(call.current(i)) &&
        (call.current(other) == call.current(i) || is_small)) {
      strategies.push_back(everywhere(call, call.current(i)));
    }
  }
  return strategies;
}

// Products are linear in each factor while the other is whole.
std::vector<Strategy> product(const OpCall& call) {
  if (call.has("rounding_mode")) {
    return shards(call);
  }
  std::vector<Strategy> strategies = linear(call);
  const bool is_quotient = call.name().starts_with("aten::div");
  for (std::size_t i = 0; i < call.num_inputs(); ++i) {
    if (call.num_inputs() == 2 && is_linear(call.current(i)) &&
        !(is_quotient && i == 1)) {
      Strategy strategy = call.strategy();
      strategy.inputs[i] = call.current(i);
      strategy.outputs.assign(call.num_outputs(), call.current(i));
      strategies.push_back(std::move(strategy));
    }
  }
  return strategies;
}

// Writes to a tensor what another has, of whatever placement the first has.
std::vector<Strategy> copy(const OpCall& call) {
  std::vector<Strategy> strategies = shards(call);
  if (call.current(0).is_partial()) {
    strategies.push_back(everywhere(call, call.current(0)));
  }
  return strategies;
}

// New tensors that have of the input only its shape, so it stays as it is.
std::vector<Strategy> like(const OpCall& call) {
  const Placement now = call.current(0);
  return {call.strategy(now, now.is_partial() ? Replicate() : now)};
}

// The same, of a shape of its own: cut where the input is, if that dim is as
// long. So the zeros that a gradient is scattered to are cut as the gradient.
std::vector<Strategy> unlike(const OpCall& call) {
  const Placement now = call.current(0);
  const Shape& in = call.shape(0);
  const Shape& out = call.out_shape(0);
  const auto dim = static_cast<std::size_t>(now.dim());
  const bool goes_on =
      now.is_shard() && in.size() == out.size() && in[dim] == out[dim];
  return {call.strategy(now, goes_on ? now : Placement(Replicate()))};
}

// Memory without values may as well be Partial: what is copied there next is.
std::vector<Strategy> empty_like(const OpCall& call) {
  return {call.strategy(call.current(0), call.current(0))};
}

// As the gradient of a parameter is made; of any other shape it is replicated.
std::vector<Strategy> empty_strided(const OpCall& call) {
  return call.out_shape(0) == call.shape(0) ? empty_like(call) : unlike(call);
}

void run_empty_strided(LocalCall& call) {
  const at::Tensor self = call.argument("self").toTensor();
  const Shape strides = call.argument("stride").toIntVector();
  const auto& expected = call.decision().outputs[0].tensors;
  if (expected.empty()) {
    call.run();
    return;
  }
  const Shape& local = expected[0].local;
  call.finish(at::empty_strided(
      local,
      dense_strides(local, strides),
      self.options().dtype(expected[0].dtype)));
}

} // namespace

void add_pointwise_rules(RuleTable& table) {
  table.add(
      "abs acos acosh addcdiv addcmul angle asin asinh atan atan2 atanh "
      "bitwise_and bitwise_not bitwise_or bitwise_xor ceil celu clamp "
      "clamp_max clamp_min copysign cos cosh digamma elu elu_backward eq erf "
      "erfc erfinv exp exp2 expm1 fill floor floor_divide fmax fmin fmod frac "
      "ge gelu gelu_backward gt hardsigmoid hardsigmoid_backward hardswish "
      "hardswish_backward hardtanh hardtanh_backward heaviside hypot isinf "
      "isnan isneginf isposinf le leaky_relu leaky_relu_backward lerp lgamma "
      "log log10 log1p log2 log_sigmoid_backward logaddexp logaddexp2 "
      "logical_and logical_not logical_or logical_xor logit logit_backward lt "
      "masked_fill maximum max.other min.other minimum mish mish_backward "
      "nan_to_num native_dropout_backward ne nextafter polygamma pow "
      "reciprocal relu remainder round rsqrt rsub.Scalar add.Scalar sub.Scalar "
      "sgn sigmoid sigmoid_backward sign signbit silu silu_backward sin sinc "
      "sinh softplus softplus_backward softshrink softshrink_backward sqrt "
      "square tan tanh tanh_backward threshold threshold_backward trunc "
      "where.self xlogy",
      {.strategies = shards, .shapes = shapes});
  table.add(
      "clone conj_physical neg negative positive zero",
      {.strategies = linear, .shapes = shapes});
  table.add("_to_copy", {.strategies = cast, .shapes = shapes});
  table.add("add sub rsub.Tensor", {.strategies = additive, .shapes = shapes});
  table.add("mul div", {.strategies = product, .shapes = shapes});
  table.add("copy", {.strategies = copy, .shapes = shapes});
  table.add("full_like ones_like zeros_like", {.strategies = like});
  table.add("empty_like", {.strategies = empty_like});
  table.add(
      "new_empty_strided",
      {.strategies = empty_strided, .run = run_empty_strided});
  table.add(
      "new_empty new_full new_ones new_zeros",
      {.strategies = unlike, .localize = local_size});
  // What a program reads of a tensor must be the same on all ranks.
  table.add("_local_scalar_dense", {});
}

} // namespace argosy::dtensor
