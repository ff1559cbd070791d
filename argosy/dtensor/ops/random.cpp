// Random ops that fill a tensor: each element is drawn by its place in the
// whole, so that it is the same however the tensor is sharded.

#include <ATen/core/Tensor.h>

#include <limits>

#include "argosy/common/error.h"
#include "argosy/dtensor/ops/draw.h"
#include "argosy/dtensor/ops/families.h"

namespace argosy::dtensor {

namespace {

// As it is; of a Partial the whole is drawn.
std::vector<Strategy> in_place(const OpCall& call) {
  if (call.current(0).is_partial()) {
    return {};
  }
  return {call.strategy(call.current(0), call.current(0))};
}

void fill(LocalCall& call, const Distribution& distribution) {
  check_generator(call);
  const at::Tensor local = call.argument("self").toTensor();
  draw(
      call,
      local,
      call.original("self").toTensor().sizes(),
      call.placements("self"),
      distribution);
  call.finish(local);
}

double number(LocalCall& call, std::string_view name) {
  return call.argument(name).toScalar().toDouble();
}

void run_uniform(LocalCall& call) {
  fill(call, uniform(number(call, "from"), number(call, "to")));
}

void run_random_normal(LocalCall& call) {
  fill(call, normal(number(call, "mean"), number(call, "std")));
}

void run_random_bernoulli(LocalCall& call) {
  fill(call, bernoulli(number(call, "p")));
}

void run_integers_below(LocalCall& call) {
  fill(call, integers(0, call.argument("to").toInt()));
}

void run_integers_between(LocalCall& call) {
  fill(
      call,
      integers(
          call.argument("from").toInt(),
          call.argument("to").isNone() ? std::numeric_limits<int>::max()
                                       : call.argument("to").toInt()));
}

void run_exponential(LocalCall& call) {
  fill(call, exponential(number(call, "lambd")));
}

void run_log_normal(LocalCall& call) {
  fill(call, log_normal(number(call, "mean"), number(call, "std")));
}

void run_cauchy(LocalCall& call) {
  fill(call, cauchy(number(call, "median"), number(call, "sigma")));
}

void run_geometric(LocalCall& call) {
  const double p = number(call, "p");
  ARGOSY_CHECK(
      p > 0 && p < 1, "[dtensor.geometric] p {}, expected in (0, 1)", p);
  fill(call, geometric(p));
}

// New tensors, of the type that is asked for or else of the first's. Of a
// Partial, only the shape counts.
std::vector<Strategy> random_like(const OpCall& call) {
  const Placement now = call.current(0);
  return {call.strategy(now, now.is_partial() ? Replicate() : now)};
}

std::vector<Shape> same_shape(const OpCall& call) {
  return {call.shape(0)};
}

void finish_like(LocalCall& call, const Distribution& distribution) {
  const at::Tensor self = call.argument("self").toTensor();
  const c10::IValue& dtype = call.argument("dtype");
  call.finish(drawn(
      call,
      distribution,
      dtype.isNone() ? self.options()
                     : self.options().dtype(dtype.toScalarType())));
}

void run_rand_like(LocalCall& call) {
  finish_like(call, uniform(0, 1));
}

void run_randn_like(LocalCall& call) {
  finish_like(call, normal(0, 1));
}

void run_randint_like(LocalCall& call) {
  finish_like(call, integers(0, call.argument("high").toInt()));
}

void run_randint_like_from(LocalCall& call) {
  finish_like(
      call,
      integers(call.argument("low").toInt(), call.argument("high").toInt()));
}

void run_bernoulli_like(LocalCall& call) {
  check_generator(call);
  call.finish(drawn(
      call,
      bernoulli(number(call, "p")),
      call.argument("self").toTensor().options()));
}

} // namespace

void add_random_rules(RuleTable& table) {
  table.add("uniform_", {.strategies = in_place, .run = run_uniform});
  table.add("normal_", {.strategies = in_place, .run = run_random_normal});
  table.add(
      "bernoulli_.float",
      {.strategies = in_place, .run = run_random_bernoulli});
  table.add("random_.to", {.strategies = in_place, .run = run_integers_below});
  table.add(
      "random_.from", {.strategies = in_place, .run = run_integers_between});
  table.add("exponential_", {.strategies = in_place, .run = run_exponential});
  table.add("log_normal_", {.strategies = in_place, .run = run_log_normal});
  table.add("cauchy_", {.strategies = in_place, .run = run_cauchy});
  table.add("geometric_", {.strategies = in_place, .run = run_geometric});
  const auto add_like = [&](std::string_view name, void (*run)(LocalCall&)) {
    table.add(
        name, {.strategies = random_like, .shapes = same_shape, .run = run});
  };
  add_like("rand_like", run_rand_like);
  add_like("randn_like", run_randn_like);
  add_like("randint_like", run_randint_like);
  add_like("randint_like.low_dtype", run_randint_like_from);
  add_like("bernoulli.p", run_bernoulli_like);
}

} // namespace argosy::dtensor
