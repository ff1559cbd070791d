#include "argosy/expert/gates.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "argosy/common/error.h"
#include "argosy/tensor_parallel/rng.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"
#include "tests/support/numbers.h"

namespace argosy {
namespace {

using argosy::testing::numbers;
using argosy::testing::run_ranks;

// Logits are the tokens themselves.
template <typename Gate>
Gate make(const GateOptions& options) {
  model_parallel_random_seed(1);
  Gate gate(options);
  const torch::NoGradGuard no_grad;
  gate->to(torch::kDouble);
  gate->weight.copy_(torch::eye(options.num_experts()));
  gate->bias.zero_();
  return gate;
}

// Probabilities [tokens, 3] that a softmax of their logarithms gives back.
at::Tensor logs(const std::vector<double>& chances) {
  return torch::tensor(chances, torch::kDouble).view({-1, 3}).log();
}

void expect_experts(
    const Routing& routing, const std::vector<std::int64_t>& expected) {
  EXPECT_TRUE(torch::equal(
      routing.experts.flatten(), torch::tensor(expected, torch::kLong)))
      << routing.experts;
}

void expect_numbers(
    const at::Tensor& got, const std::vector<double>& expected) {
  EXPECT_TRUE(torch::allclose(
      got.flatten().to(torch::kDouble),
      torch::tensor(expected, torch::kDouble),
      1e-9,
      1e-12))
      << got;
}

const GateOptions kThree(3, 3);

void on_one_rank(const std::function<void()>& body) {
  run_ranks(1, [&](World&) { body(); });
}

TEST(NaiveGate, WeighsByTheSoftmaxOfWhatItChose) {
  on_one_rank([] {
    const at::Tensor x = logs({0.2, 0.5, 0.3, 0.6, 0.1, 0.3});
    NaiveGate gate = make<NaiveGate>(kThree);
    const Routing routing = gate->forward(x);
    expect_experts(routing, {1, 2, 0, 2});
    expect_numbers(routing.weights, {5 / 8., 3 / 8., 6 / 9., 3 / 9.});
    EXPECT_FALSE(gate->get_loss().defined());
    const auto weights = [&](const GateOptions& options) {
      return make<NaiveGate>(options)->forward(x).weights;
    };
    expect_numbers(
        weights(GateOptions(kThree).weights(GateWeights::Probabilities)),
        {0.5, 0.3, 0.6, 0.3});
    expect_numbers(
        weights(GateOptions(kThree).like_paddle(true)),
        {std::log(0.5), std::log(0.3), std::log(0.6), std::log(0.3)});
    EXPECT_THROW(NaiveGate(GateOptions(3, 3).top_k(4)), InvalidArgument);
  });
}

// Four tokens that want expert 0 first and 1 next; two choices of each have
// room: ceil(0.75 * 2 * 4 / 3).
TEST(GShardGate, LimitsAndBalances) {
  on_one_rank([] {
    const at::Tensor x =
        logs({0.5, 0.4, 0.1, 0.5, 0.4, 0.1, 0.5, 0.4, 0.1, 0.5, 0.4, 0.1});
    const GateOptions options =
        GateOptions(kThree).capacity({0.75, 2.4}).random_routing(false);
    GShardGate gate = make<GShardGate>(options);
    expect_experts(gate->forward(x), {0, 1, 0, 1, -1, -1, -1, -1});
    expect_numbers(gate->get_loss(), {3 * 1 * 0.5});
    gate->eval();
    expect_experts(gate->forward(x), {0, 1, 0, 1, 0, 1, 0, 1});
    // Paddle: room for ceil(0.75 * 4), and losses of both choices.
    GShardGate other = make<GShardGate>(GateOptions(options).like_paddle(true));
    expect_experts(other->forward(x), {0, 1, 0, 1, 0, 1, -1, -1});
    expect_numbers(other->get_loss(), {3 * (1 * 0.5 + 1 * 0.4)});
    EXPECT_THROW(GShardGate(GateOptions(3, 3).top_k(1)), InvalidArgument);
  });
}

// 0.45 of 0.5 + 0.45 is taken in 18 of 19 cases, 0.05 of 0.94 + 0.05 in
// about 2 of 20.
TEST(GShardGate, TakesSecondChoicesByChance) {
  run_ranks(2, [](World& world) {
    const at::Tensor x =
        torch::constant_pad_nd(
            logs({0.5, 0.45, 0.05, 0.94, 0.05, 0.01}), {0, 1}, -1e9)
            .repeat({2000, 1});
    GShardGate gate = make<GShardGate>(
        GateOptions(4, 4).capacity({9, 9}).group(get_group(0)));
    const at::Tensor taken =
        gate->forward(x).experts.select(1, 1).ge(0).view({2000, 2});
    const at::Tensor share = taken.to(torch::kDouble).mean(0);
    EXPECT_NEAR(share[0].item<double>(), 18. / 19, 0.03);
    EXPECT_NEAR(share[1].item<double>(), 2 * 0.05 / 0.99, 0.03);
    // Ranks draw other numbers.
    Tensors all;
    all_gather(all, taken);
    EXPECT_FALSE(torch::equal(all[0], all[1]));
    gate->eval();
    EXPECT_TRUE(gate->forward(x).experts.ge(0).all().item<bool>());
    EXPECT_EQ(world.size(), 2);
  });
}

TEST(SwitchGate, TakesTheMostLikely) {
  on_one_rank([] {
    const at::Tensor x = logs({0.5, 0.4, 0.1, 0.6, 0.3, 0.1, 0.2, 0.3, 0.5});
    // Room for ceil(0.9 * 3 / 3) = 1.
    const GateOptions options = GateOptions(kThree).capacity({0.9, 3}).noise(0);
    SwitchGate gate = make<SwitchGate>(options);
    const Routing routing = gate->forward(x);
    expect_experts(routing, {0, -1, 2});
    expect_numbers(routing.weights, {0.5, 0.6, 0.5});
    expect_numbers(
        gate->get_loss(), {3 * (2 / 3. * 1.3 / 3 + 1 / 3. * 0.7 / 3)});
    // Paddle: room for ceil(0.3 * 3), and both divided by the two that it took.
    SwitchGate other = make<SwitchGate>(
        GateOptions(options).capacity({0.3, 3}).like_paddle(true));
    expect_experts(other->forward(x), {0, -1, 2});
    expect_numbers(
        other->get_loss(), {3 * (1 / 2. * 1.3 / 2 + 1 / 2. * 0.7 / 2)});
    EXPECT_THROW(SwitchGate(GateOptions(3, 3).top_k(2)), InvalidArgument);
  });
}

TEST(SwitchGate, MultipliesByNoise) {
  on_one_rank([] {
    const at::Tensor x = numbers({500, 3}, 1) * 2;
    SwitchGate gate = make<SwitchGate>(GateOptions(kThree).capacity({9, 9}));
    const at::Tensor noisy = gate->forward(x).weights;
    gate->eval();
    const at::Tensor exact = gate->forward(x).weights;
    EXPECT_FALSE(torch::allclose(noisy, exact));
    EXPECT_LT((noisy - exact).abs().max().item<double>(), 0.15);
  });
}

TEST(Gates, LossesOfNoTokensAreZero) {
  on_one_rank([] {
    const at::Tensor x = torch::empty({0, 3}, torch::kDouble);
    for (const bool paddle : {false, true}) {
      const GateOptions options =
          GateOptions(kThree).like_paddle(paddle).z_loss(1);
      for (const std::shared_ptr<GateImpl>& gate :
           std::vector<std::shared_ptr<GateImpl>>{
               make<GShardGate>(options).ptr(),
               make<SwitchGate>(options).ptr(),
               make<DroplessGate>(options).ptr()}) {
        const Routing routing = gate->forward(x);
        EXPECT_EQ(routing.experts.size(0), 0);
        const at::Tensor loss = gate->get_loss();
        EXPECT_EQ(loss.item<double>(), 0);
        loss.backward();
        EXPECT_EQ(gate->weight.grad().abs().sum().item<double>(), 0);
      }
    }
  });
}

// No choice has room, as with Paddle's Switch where it divides by none.
TEST(Gates, LossesOfNothingTakenAreFinite) {
  on_one_rank([] {
    SwitchGate gate = make<SwitchGate>(
        GateOptions(kThree).capacity({0, 0}).like_paddle(true));
    const Routing routing = gate->forward(numbers({4, 3}, 1));
    EXPECT_TRUE(routing.experts.eq(-1).all().item<bool>());
    EXPECT_TRUE(gate->get_loss().isfinite().item<bool>());
  });
}

TEST(DroplessGate, AddsUpItsLosses) {
  on_one_rank([] {
    const at::Tensor x = logs({0.5, 0.4, 0.1, 0.2, 0.3, 0.5}) + 2;
    const GateOptions options = GateOptions(kThree).balance_loss(0.5).z_loss(3);
    DroplessGate gate = make<DroplessGate>(options);
    const Routing routing = gate->forward(x);
    expect_experts(routing, {0, 1, 2, 1});
    expect_numbers(routing.weights, {5 / 9., 4 / 9., 5 / 8., 3 / 8.});
    const double balance =
        3 * (1 / 4. * 0.7 / 2 + 2 / 4. * 0.7 / 2 + 1 / 4. * 0.6 / 2);
    expect_numbers(gate->get_loss(false), {0.5 * balance + 3 * 2 * 2});
    EXPECT_TRUE(gate->has_loss());
    expect_numbers(gate->get_loss(), {0.5 * balance + 3 * 2 * 2});
    EXPECT_FALSE(gate->has_loss());
  });
}

// Rank 0 chooses experts 0 and 1, rank 1 chooses 1 and 2; nobody 3.
TEST(DroplessGate, BalancesWithoutALoss) {
  run_ranks(2, [](World& world) {
    DroplessGate gate = make<DroplessGate>(
        GateOptions(4, 4).balance_rate(0.25).group(get_group(0)));
    const at::Tensor x = torch::eye(4, torch::kDouble).narrow(0, 0, 3) * 3;
    const at::Tensor token =
        (x[world.rank()] + x[world.rank() + 1]).unsqueeze(0);
    gate->forward(token);
    gate->update_balance();
    expect_numbers(gate->balance_bias, {0, -0.25, 0, 0.25});
    expect_numbers(gate->load, {0, 0, 0, 0});
    // The bias decides among the equal, and does not weigh.
    const Routing routing = gate->forward(torch::zeros({1, 4}, torch::kDouble));
    EXPECT_EQ(routing.experts[0][0].item<long>(), 3);
    expect_numbers(routing.weights, {0.5, 0.5});
  });
}

TEST(Gates, Of16BitTokensComputeInFloat) {
  on_one_rank([] {
    NaiveGate gate(kThree);
    gate->to(torch::kBFloat16);
    const Routing routing =
        gate->forward(numbers({4, 3}, 1).to(torch::kBFloat16));
    EXPECT_EQ(routing.weights.scalar_type(), torch::kFloat);
    EXPECT_THROW(gate->forward(torch::ones({4, 2})), InvalidArgument);
  });
}

} // namespace
} // namespace argosy
