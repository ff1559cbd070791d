// Mixed precision: autocast and the scale of the loss.

#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <cmath>
#include <limits>

#include "argosy/comm/group.h"
#include "argosy/common/error.h"
#include "argosy/optim/adam.h"
#include "argosy/optim/autocast.h"
#include "argosy/optim/grad_scaler.h"
#include "argosy/optim/gradients.h"
#include "argosy/optim/sgd.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"
#include "tests/optim/param_sets.h"

namespace argosy::optim {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

at::Tensor product() {
  return torch::ones({4, 4}).mm(torch::ones({4, 4}));
}

TEST(AutoCast, MultipliesInBfloat16WithinTheScope) {
  {
    const AutoCast cast;
    EXPECT_EQ(product().scalar_type(), torch::kBFloat16);
    {
      const AutoCast off(false, torch::kHalf); // the type does not matter
      EXPECT_EQ(product().scalar_type(), torch::kFloat);
    }
    EXPECT_EQ(product().scalar_type(), torch::kBFloat16);
  }
  EXPECT_EQ(product().scalar_type(), torch::kFloat);
}

// Large enough for AMX, with which oneDNN 2.6 ends the process.
TEST(AutoCast, MultipliesOnMachinesWithAmx) {
  torch::manual_seed(3);
  const at::Tensor x = torch::randn({64, 64});
  const at::Tensor y = torch::randn({64, 256});
  const AutoCast cast;
  const at::Tensor exact = x.to(torch::kDouble).mm(y.to(torch::kDouble));
  EXPECT_TRUE(torch::allclose(x.mm(y).to(torch::kDouble), exact, 0.1, 0.5));
}

TEST(AutoCast, GradientsHaveTheTypeOfTheWeights) {
  torch::nn::Linear layer(8, 4);
  at::Tensor loss;
  {
    const AutoCast cast;
    loss = layer->forward(torch::ones({2, 8})).pow(2).mean();
  }
  loss.backward();
  EXPECT_EQ(layer->weight.grad().scalar_type(), torch::kFloat);
}

// Why float16 is refused: when this fails, LibTorch has learned it.
TEST(AutoCast, RefusesWhatLibTorchCannotMultiply) {
  EXPECT_THROW(AutoCast(true, torch::kHalf), InvalidArgument);
  EXPECT_THROW(AutoCast(true, torch::kDouble), InvalidArgument);
  const at::Tensor half = torch::ones({4, 4}).to(torch::kHalf);
  EXPECT_THROW(half.mm(half), c10::Error);
  EXPECT_EQ(product().scalar_type(), torch::kFloat);
}

// A regression with bfloat16 products reaches what float32 does, nearly.
TEST(AutoCast, TrainsWithMasterWeights) {
  torch::manual_seed(1);
  const at::Tensor truth = torch::randn({8, 1});
  torch::nn::Linear layer(8, 1);
  layer->to(torch::kBFloat16);
  Adam optimizer(layer->parameters(), AdamOptions(0.02));
  double last = 0;
  for (int step = 0; step < 400; ++step) {
    const at::Tensor x = torch::randn({64, 8});
    at::Tensor loss;
    {
      const AutoCast cast;
      const at::Tensor out = layer->forward(x);
      loss =
          (out.to(torch::kFloat) - x.to(torch::kFloat).mm(truth)).pow(2).mean();
    }
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    last = loss.item<double>();
  }
  EXPECT_LT(last, 1e-2);
}

// ---- GradScaler -------------------------------------------------------------

TEST(GradScaler, ScaleGrowsAndShrinks) {
  const GradScalerOptions options{
      .incr_every_n_steps = 2, .decr_every_n_nan_or_inf = 2};
  GradScaler::State state{.scale = 8};
  state = next_state(options, state, false);
  EXPECT_EQ(state, (GradScaler::State{8, 1, 0}));
  state = next_state(options, state, true);
  EXPECT_EQ(state, (GradScaler::State{8, 0, 1}));
  state = next_state(options, state, true);
  EXPECT_EQ(state, (GradScaler::State{4, 0, 0}));
  state = next_state(options, state, false);
  state = next_state(options, state, false);
  EXPECT_EQ(state, (GradScaler::State{8, 0, 0}));
}

TEST(GradScaler, ScaleStaysInBounds) {
  const GradScalerOptions options{.incr_every_n_steps = 1};
  EXPECT_EQ(next_state(options, {.scale = 1}, true).scale, 1);
  EXPECT_EQ(next_state(options, {.scale = 2e38}, false).scale, 2e38);
}

template <typename Optimizer>
void check_step(bool unscale_first) {
  at::Tensor p = torch::ones({3}, torch::requires_grad());
  Optimizer optimizer(Tensors{p}, SGDOptions(0.5));
  GradScaler scaler({.init_loss_scaling = 1024, .incr_every_n_steps = 1});
  scaler.scale((2 * p).sum()).backward();
  if (unscale_first) {
    scaler.unscale_(optimizer);
    EXPECT_THROW(scaler.unscale_(optimizer), InvalidArgument);
    EXPECT_TRUE(torch::equal(p.grad(), torch::full({3}, 2.f)));
  }
  EXPECT_TRUE(scaler.step(optimizer));
  scaler.update();
  EXPECT_TRUE(torch::equal(p, torch::zeros({3})));
  EXPECT_EQ(scaler.loss_scaling(), 2048);

  p.mutable_grad() = torch::tensor({1.f, kInfinity, 1.f});
  EXPECT_FALSE(scaler.step(optimizer));
  EXPECT_TRUE(scaler.found_inf());
  scaler.update();
  EXPECT_TRUE(torch::equal(p, torch::zeros({3})));
  EXPECT_EQ(scaler.loss_scaling(), 1024);
}

TEST(GradScaler, UndoesTheScaleAndSkipsInfinities) {
  check_step<SGD>(false);
  check_step<SGD>(true);
  check_step<torch::optim::SGD>(false);
  check_step<torch::optim::SGD>(true);
}

TEST(GradScaler, OneOptimizerSkipsAndTheScaleShrinksForBoth) {
  at::Tensor p = torch::ones({1}, torch::requires_grad());
  at::Tensor q = torch::ones({1}, torch::requires_grad());
  SGD first(Tensors{p}, SGDOptions(1));
  torch::optim::SGD second(Tensors{q}, SGDOptions(1));
  GradScaler scaler({.init_loss_scaling = 2});
  p.mutable_grad() = torch::full({1}, kInfinity);
  q.mutable_grad() = torch::full({1}, 2.f);
  EXPECT_FALSE(scaler.step(first));
  EXPECT_TRUE(scaler.step(second));
  scaler.update();
  EXPECT_EQ(q.item<float>(), 0);
  EXPECT_EQ(scaler.loss_scaling(), 1);
}

// 2^-30 is 0 in float16; scaled it is not, and the master gets it.
TEST(GradScaler, KeepsGradientsThatFloat16CannotHold) {
  at::Tensor p = torch::zeros({3}, torch::kHalf).requires_grad_();
  SGD optimizer(Tensors{p}, SGDOptions(1));
  GradScaler scaler({.init_loss_scaling = 65536});
  const float tiny = std::ldexp(1.f, -30);
  p.mutable_grad() = torch::full({3}, 65536 * tiny, torch::kHalf);
  EXPECT_TRUE(scaler.step(optimizer));
  EXPECT_EQ(optimizer.state_dict().at("0.master")[0].item<float>(), -tiny);
  EXPECT_EQ(optimizer.grad_scale(), 1);
}

TEST(GradScaler, PassesThroughWhenDisabled) {
  at::Tensor p = torch::ones({1}, torch::requires_grad());
  SGD optimizer(Tensors{p}, SGDOptions(1));
  GradScaler scaler({.enable = false});
  scaler.scale(p.sum()).backward();
  scaler.unscale_(optimizer);
  EXPECT_TRUE(scaler.step(optimizer));
  scaler.update();
  EXPECT_EQ(p.item<float>(), 0);
  EXPECT_EQ(scaler.loss_scaling(), 1);
}

TEST(GradScaler, AllRanksSkipWhatOneMust) {
  testing::run_ranks(2, [](World& world) {
    at::Tensor p = torch::ones({1}, torch::requires_grad());
    SGD optimizer(Tensors{p}, SGDOptions(1));
    GradScaler scaler({.init_loss_scaling = 4}, get_group());
    for (int step = 0; step < 4; ++step) {
      // Rank 1 alone has an infinity in step 1, rank 0 a NaN in step 2.
      const bool bad =
          (step == 1 && world.rank() == 1) || (step == 2 && world.rank() == 0);
      const float value = step == 1 ? kInfinity : std::nanf("");
      p.mutable_grad() = torch::full({1}, bad ? value : 4.f);
      EXPECT_EQ(scaler.step(optimizer), step == 0 || step == 3) << step;
      scaler.update();
    }
    // Scales 4, 4, 2, 1 in turn: gradients 4 / 4 and 4 / 1.
    EXPECT_EQ(p.item<float>(), 1 - 1 - 4);
    EXPECT_EQ(scaler.loss_scaling(), 1);
  });
}

TEST(GradScaler, RefusesImpossibleOptions) {
  EXPECT_THROW(GradScaler({.init_loss_scaling = 0}), InvalidArgument);
  EXPECT_THROW(GradScaler({.incr_ratio = 1}), InvalidArgument);
  EXPECT_THROW(GradScaler({.decr_ratio = 1}), InvalidArgument);
  EXPECT_THROW(GradScaler({.incr_every_n_steps = 0}), InvalidArgument);
}

} // namespace
} // namespace argosy::optim
