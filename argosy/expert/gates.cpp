#include "argosy/expert/gates.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

#include "argosy/common/error.h"
#include "argosy/expert/expert_seed.h"
#include "argosy/expert/routing.h"
#include "argosy/mesh/hybrid_mesh.h"
#include "argosy/optim/autocast.h"
#include "argosy/tensor_parallel/initial_values.h"

namespace argosy {

namespace {

// Defaults of a gate for options that are not set.
struct Habit {
  std::int64_t top_k = 2;
  bool only_top_k = false;
  GateWeights weights = GateWeights::Normalized;
  GateWeights paddle_weights = GateWeights::Logits;
};

GateOptions completed(GateOptions options, const Habit& habit) {
  if (options.top_k() == 0) {
    options.top_k(habit.top_k);
  }
  ARGOSY_CHECK(
      !habit.only_top_k || options.top_k() == habit.top_k,
      "[expert.gate] top_k is {}, expected {}",
      options.top_k(),
      habit.top_k);
  if (options.weights() == GateWeights::Default) {
    options.weights(
        options.like_paddle() ? habit.paddle_weights : habit.weights);
  }
  return options;
}

at::Tensor weights_of(
    const at::Tensor& logits, const at::Tensor& experts, GateWeights kind) {
  const at::Tensor chosen = logits.gather(1, experts);
  if (kind == GateWeights::Logits) {
    return chosen;
  }
  return kind == GateWeights::Normalized ? chosen.softmax(1)
                                         : logits.softmax(1).gather(1, experts);
}

// The mean over tokens, of which there may be none.
at::Tensor mean_of(const at::Tensor& tensor, std::int64_t count) {
  return tensor.sum(0) / std::max<std::int64_t>(count, 1);
}

at::Tensor fractions(
    const at::Tensor& experts, const at::Tensor& like, std::int64_t count) {
  return expert::number_count(experts, like.size(1)).to(like.scalar_type()) /
      std::max<std::int64_t>(count, 1);
}

std::int64_t num_kept(const at::Tensor& experts) {
  return experts.ge(0).sum().item<std::int64_t>();
}

} // namespace

GateImpl::GateImpl(GateOptions its_options)
    : options(std::move(its_options)),
      group_(group_or_axis(options.group(), "expert")) {
  const std::int64_t experts = options.num_experts();
  ARGOSY_CHECK(
      options.d_model() > 0 && experts > 0 && options.top_k() > 0 &&
          options.top_k() <= experts,
      "[expert.gate] top {} of {} experts, expected at most as many choices as "
      "experts",
      options.top_k(),
      experts);
  const at::Generator generator = tensor_parallel::initial_generator();
  const double bound = 1 / std::sqrt(static_cast<double>(options.d_model()));
  const auto add = [&](const char* name, at::IntArrayRef sizes) {
    const at::NoGradGuard no_grad;
    return register_parameter(
        name, at::empty(sizes).uniform_(-bound, bound, generator));
  };
  weight = add("weight", {experts, options.d_model()});
  if (options.bias()) {
    bias = add("bias", {experts});
  }
}

GateImpl::~GateImpl() = default;

at::Tensor GateImpl::get_loss(bool clear) {
  return clear ? std::exchange(loss_, at::Tensor()) : loss_;
}

at::Tensor GateImpl::logits_of(const at::Tensor& tokens) const {
  ARGOSY_CHECK(
      tokens.dim() == 2 && tokens.size(1) == options.d_model(),
      "[expert.gate] tokens {}, expected [tokens, {}]",
      tokens.sizes(),
      options.d_model());
  const auto type =
      tokens.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const optim::AutoCast off(false); // rounded logits would change choices
  return at::linear(
      tokens.to(type), weight.to(type), bias.defined() ? bias.to(type) : bias);
}

Routing GateImpl::choose(
    const at::Tensor& logits, const at::Tensor& ranking) const {
  const at::Tensor experts =
      std::get<1>(ranking.detach().topk(options.top_k(), 1));
  return {experts, weights_of(logits, experts, options.weights())};
}

// Own capacity: each rank drops by itself, without communication. Paddle's
// capacity counts over all ranks, which takes two exchanges of counts.
at::Tensor GateImpl::limit(const at::Tensor& experts) const {
  const double factor =
      is_training() ? options.capacity().first : options.capacity().second;
  const auto tokens = static_cast<double>(experts.size(0));
  const auto rounded = [](double capacity) {
    return static_cast<std::int64_t>(std::ceil(capacity));
  };
  const std::int64_t all = options.num_experts();
  if (options.like_paddle()) {
    return expert::limit_over_ranks(
        experts, all, rounded(factor * tokens), group_);
  }
  const double share = static_cast<double>(options.top_k()) / all;
  return expert::limit_by_source(
      experts, all, rounded(factor * tokens * share));
}

// Ranks route different tokens, so each draws its own numbers from a seed that
// all ranks share.
at::Tensor GateImpl::draw(at::IntArrayRef sizes) const {
  return at::empty(sizes).uniform_(
      0, 1, expert::seeded(expert::draw_seed(), group_->rank()));
}

NaiveGateImpl::NaiveGateImpl(const GateOptions& its_options)
    : GateImpl(completed(its_options, {})) {}

Routing NaiveGateImpl::forward(const at::Tensor& tokens) {
  const at::Tensor logits = logits_of(tokens);
  return choose(logits, logits);
}

GShardGateImpl::GShardGateImpl(const GateOptions& its_options)
    : GateImpl(completed(its_options, {.only_top_k = true})) {}

Routing GShardGateImpl::forward(const at::Tensor& tokens) {
  const at::Tensor logits = logits_of(tokens);
  Routing routing = choose(logits, logits);
  set_loss(balance_loss(logits, routing.experts));
  // In Paddle, choices that are dropped by chance still count against the
  // capacity.
  if (options.like_paddle()) {
    routing.experts = limit(routing.experts);
    routing.experts = drop_by_chance(routing);
  } else {
    routing.experts = drop_by_chance(routing);
    routing.experts = limit(routing.experts);
  }
  return routing;
}

at::Tensor GShardGateImpl::balance_loss(
    const at::Tensor& logits, const at::Tensor& experts) const {
  const std::int64_t count = logits.size(0);
  const at::Tensor counted =
      options.like_paddle() ? experts : experts.narrow(1, 0, 1);
  const auto all = static_cast<double>(options.num_experts());
  const double n = options.like_paddle() ? all / group()->nranks() : all;
  return (fractions(counted, logits, count) * mean_of(logits.softmax(1), count))
             .sum() *
      (n * n / all);
}

at::Tensor GShardGateImpl::drop_by_chance(const Routing& routing) const {
  if (!options.random_routing() || !(is_training() || options.like_paddle())) {
    return routing.experts;
  }
  return expert::random_routing(
      routing.experts,
      routing.weights.detach(),
      draw({routing.experts.size(0)}));
}

SwitchGateImpl::SwitchGateImpl(const GateOptions& its_options)
    : GateImpl(completed(
          its_options,
          {.top_k = 1,
           .only_top_k = true,
           .weights = GateWeights::Probabilities,
           .paddle_weights = GateWeights::Probabilities})) {}

Routing SwitchGateImpl::forward(const at::Tensor& tokens) {
  at::Tensor logits = logits_of(tokens);
  const bool paddle = options.like_paddle();
  if (is_training() && options.noise() > 0) {
    const double noise = options.noise();
    const at::Tensor factor = (draw(logits.sizes()) * (2 * noise) + (1 - noise))
                                  .to(logits.scalar_type());
    logits = paddle ? logits + factor : logits * factor;
  }
  Routing routing = choose(logits, logits);
  const at::Tensor limited = limit(routing.experts);
  const std::int64_t count = paddle ? num_kept(limited) : tokens.size(0);
  const at::Tensor used =
      fractions(paddle ? limited : routing.experts, logits, count);
  set_loss(
      (used * mean_of(logits.softmax(1), count)).sum() *
      static_cast<double>(options.num_experts()));
  routing.experts = limited;
  return routing;
}

DroplessGateImpl::DroplessGateImpl(const GateOptions& its_options)
    : GateImpl(completed(its_options, {})),
      balance_bias(
          register_buffer("balance_bias", at::zeros({options.num_experts()}))),
      load(register_buffer("load", at::zeros({options.num_experts()}))) {}

Routing DroplessGateImpl::forward(const at::Tensor& tokens) {
  const at::Tensor logits = logits_of(tokens);
  const at::Tensor likely = logits.softmax(1);
  Routing routing =
      choose(logits, likely.detach() + balance_bias.to(likely.scalar_type()));
  const std::int64_t count = tokens.size(0);
  const at::Tensor used =
      fractions(routing.experts, logits, count * options.top_k());
  at::Tensor loss = (used * mean_of(likely, count)).sum() *
      (options.balance_loss() * static_cast<double>(options.num_experts()));
  if (options.z_loss() > 0) {
    loss = loss +
        mean_of(at::logsumexp(logits, 1).square(), count) * options.z_loss();
  }
  set_loss(loss);
  if (is_training()) {
    // Evaluation must not shift the balance. update_balance() reads it.
    load += expert::number_count(routing.experts, options.num_experts());
  }
  return routing;
}

// Experts with more than the mean load become less likely by a fixed rate. The
// bias only ranks experts; weights and gradients do not see it.
void DroplessGateImpl::update_balance() {
  const at::NoGradGuard no_grad;
  all_reduce(load, ReduceOp::SUM, group());
  balance_bias += (load.mean() - load).sign() * options.balance_rate();
  load.zero_();
}

} // namespace argosy
