// Random ops whose probabilities are tensors: samples for each element, or for
// each row.

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/topk.h>

#include "argosy/common/error.h"
#include "argosy/dtensor/ops/draw.h"
#include "argosy/dtensor/ops/families.h"
#include "argosy/dtensor/ops/letters.h"

namespace argosy::dtensor {

namespace {

// An element of each output for one of each input, with broadcasting.
std::vector<Strategy> elements(const OpCall& call) {
  const Shape whole = broadcast_shape(call);
  const std::string letters = first_letters(whole.size());
  return by_letters(
      call,
      broadcast_inputs(call, letters, whole),
      std::vector<std::string>(call.num_outputs(), letters));
}

std::vector<Shape> element_shapes(const OpCall& call) {
  return std::vector<Shape>(call.num_outputs(), broadcast_shape(call));
}

at::Tensor uniform_numbers(LocalCall& call) {
  return drawn(call, uniform(0, 1), at::TensorOptions(at::kDouble));
}

void check_probabilities(const at::Tensor& p) {
  ARGOSY_CHECK(
      p.numel() == 0 || p.ge(0).logical_and_(p <= 1).all().item<bool>(),
      "[dtensor.bernoulli] a probability is outside of 0 to 1");
}

// Ones where a number is below the probability.
void run_bernoulli(LocalCall& call) {
  check_generator(call);
  const at::Tensor p = call.argument("self").toTensor();
  check_probabilities(p);
  call.finish((uniform_numbers(call) < p).to(p.scalar_type()));
}

void run_bernoulli_in_place(LocalCall& call) {
  check_generator(call);
  const at::Tensor self = call.argument("self").toTensor();
  const at::Tensor p = call.argument("p").toTensor();
  check_probabilities(p);
  self.copy_(uniform_numbers(call) < p);
  call.finish(self);
}

// Mean and deviation are tensors or numbers.
void run_normal(LocalCall& call) {
  check_generator(call);
  const c10::IValue mean = call.argument("mean");
  const c10::IValue deviation = call.argument("std");
  const at::Tensor& typed = (mean.isTensor() ? mean : deviation).toTensor();
  at::Tensor numbers = drawn(call, normal(0, 1), typed.options());
  if (deviation.isTensor()) {
    numbers.mul_(deviation.toTensor());
  } else {
    numbers.mul_(deviation.toScalar());
  }
  if (mean.isTensor()) {
    numbers.add_(mean.toTensor());
  } else {
    numbers.add_(mean.toScalar());
  }
  call.finish(numbers);
}

void run_dropout(LocalCall& call) {
  const at::Tensor input = call.argument("input").toTensor();
  const double p = call.argument("p").toDouble();
  const c10::IValue& train = call.argument("train");
  const bool drops = train.isNone() || train.toBool();
  const double kept = drops ? 1 - p : 1;
  const at::Tensor mask =
      drawn(call, bernoulli(kept), input.options().dtype(at::kBool));
  const at::Tensor out =
      (input * mask).mul_(kept == 0 || !drops ? 1 : 1 / kept);
  call.finish(torch::jit::Stack{out, mask});
}

// Rows of weights, of which some are picked.
std::vector<Strategy> rows(const OpCall& call) {
  if (call.shape(0).size() != 2) {
    return {};
  }
  return {call.strategy(Shard(0), Shard(0))};
}

std::vector<Shape> picked_shape(const OpCall& call) {
  Shape shape = call.shape(0);
  shape.back() = call.integer("num_samples", 0);
  return {shape};
}

void check_weights(const at::Tensor& weights) {
  ARGOSY_CHECK(
      weights.numel() == 0 ||
          (weights.ge(0).logical_and_(weights.isfinite()).all().item<bool>() &&
           weights.sum(-1).gt(0).all().item<bool>()),
      "[dtensor.multinomial] expected weights that are finite, not below 0, "
      "and not all 0 in a row");
}

// The place of a number among the sums of weights up to each.
at::Tensor pick_with_replacement(LocalCall& call, const at::Tensor& weights) {
  const at::Tensor sums = weights.cumsum(-1);
  const at::Tensor places = sums / sums.narrow(-1, sums.size(-1) - 1, 1);
  return at::searchsorted(
      places, uniform_numbers(call), /*out_int32=*/false, /*right=*/true);
}

// Whose exponential clock, of a rate that is the weight, strikes first.
at::Tensor pick_without(
    LocalCall& call, const at::Tensor& weights, std::int64_t count) {
  const at::Tensor numbers = at::empty_like(weights);
  draw(
      call,
      numbers,
      call.original("self").toTensor().sizes(),
      call.placements("self"),
      exponential(1));
  return std::get<1>(at::topk(weights / numbers, count, -1));
}

void run_multinomial(LocalCall& call) {
  check_generator(call);
  const at::Tensor weights =
      call.argument("self").toTensor().to(at::kDouble).contiguous();
  const std::int64_t count = call.argument("num_samples").toInt();
  const bool replaces = call.argument("replacement").toBool();
  check_weights(weights);
  ARGOSY_CHECK(
      replaces || (weights > 0).sum(-1).ge(count).all().item<bool>(),
      "[dtensor.multinomial] {} samples without replacement of fewer weights "
      "above 0",
      count);
  call.finish(
      replaces ? pick_with_replacement(call, weights)
               : pick_without(call, weights, count));
}

} // namespace

void add_sampling_rules(RuleTable& table) {
  const auto add_elements = [&](std::string_view name,
                                void (*run)(LocalCall&)) {
    table.add(
        {name}, {.strategies = elements, .shapes = element_shapes, .run = run});
  };
  add_elements("bernoulli", run_bernoulli);
  add_elements("bernoulli_.Tensor", run_bernoulli_in_place);
  add_elements("normal.Tensor_float", run_normal);
  add_elements("normal.float_Tensor", run_normal);
  add_elements("normal.Tensor_Tensor", run_normal);
  add_elements("native_dropout", run_dropout);
  table.add(
      "multinomial",
      {.strategies = rows, .shapes = picked_shape, .run = run_multinomial});
}

} // namespace argosy::dtensor
