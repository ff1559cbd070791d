// Gradient clipping and merging, averages of parameters, local SGD.

#include <gtest/gtest.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/utils/clip_grad.h>

#include <limits>

#include "argosy/comm/group.h"
#include "argosy/common/error.h"
#include "argosy/optim/ema.h"
#include "argosy/optim/gradient_merge.h"
#include "argosy/optim/gradients.h"
#include "argosy/optim/local_sgd.h"
#include "argosy/optim/sgd.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"
#include "tests/optim/param_sets.h"

namespace argosy::optim {
namespace {

constexpr double kUnbounded = std::numeric_limits<double>::infinity();

void expect_same_grads(const Tensors& ours, const Tensors& theirs) {
  for (std::size_t i = 0; i < ours.size(); ++i) {
    ASSERT_EQ(ours[i].grad().defined(), theirs[i].grad().defined());
    if (ours[i].grad().defined()) {
      EXPECT_TRUE(torch::allclose(ours[i].grad(), theirs[i].grad(), 1e-5, 1e-9))
          << i;
    }
  }
}

// Each is clipped here and by torch.
class Clipping : public ::testing::TestWithParam<c10::ScalarType> {
 protected:
  void SetUp() override {
    set_grads(ours, 0);
    set_grads(theirs, 0);
  }
  Tensors ours = make_params(GetParam());
  Tensors theirs = make_params(GetParam());
};
INSTANTIATE_TEST_SUITE_P(
    Types, Clipping, ::testing::Values(torch::kFloat, torch::kDouble));

TEST_P(Clipping, ByNormEqualsTorch) {
  // The norm is about 270: clipped, and left alone.
  for (const double max_norm : {5.0, 1e6}) {
    SetUp();
    const double norm = clip_grad_norm_(ours, max_norm);
    const double expected = torch::nn::utils::clip_grad_norm_(theirs, max_norm);
    EXPECT_NEAR(norm, expected, 1e-5 * expected);
    expect_same_grads(ours, theirs);
  }
}

TEST_P(Clipping, ByOtherNormsEqualsTorch) {
  // torch's maximum has no empty tensors.
  ours.erase(ours.begin() + 8);
  theirs.erase(theirs.begin() + 8);
  for (const double type : {1.0, 3.0, 0.0, kUnbounded}) {
    const double norm = clip_grad_norm_(ours, 0.5, type);
    const double expected =
        torch::nn::utils::clip_grad_norm_(theirs, 0.5, type);
    EXPECT_NEAR(norm, expected, 1e-5 * expected) << type;
    expect_same_grads(ours, theirs);
  }
}

TEST_P(Clipping, ByValueEqualsTorch) {
  clip_grad_value_(ours, 0.25);
  torch::nn::utils::clip_grad_value_(theirs, 0.25);
  expect_same_grads(ours, theirs);
}

TEST_P(Clipping, RefusesANormThatIsNotFiniteWhenAsked) {
  ours[0].mutable_grad().fill_(kUnbounded);
  EXPECT_THROW(clip_grad_norm_(ours, 1, 2, true), InvalidArgument);
  EXPECT_EQ(clip_grad_norm_(ours, 1), kUnbounded);
}

TEST(Gradients, NormsOfPartsAddUp) {
  const Tensors params = make_params();
  set_grads(params, 0);
  const Tensors first(params.begin(), params.begin() + 4);
  const Tensors second(params.begin() + 4, params.end());
  EXPECT_DOUBLE_EQ(
      squared_grad_norm(first) + squared_grad_norm(second),
      squared_grad_norm(params));
}

TEST(Gradients, ValuesOfSparseOnesCount) {
  torch::nn::Embedding table(torch::nn::EmbeddingOptions(10, 2).sparse(true));
  table->forward(torch::tensor({1, 1, 4})).sum().backward();
  // Row 1 has gradient 2, row 4 has 1.
  EXPECT_DOUBLE_EQ(squared_grad_norm(table->parameters()), 2 * 4 + 2 * 1);
  scale_grads(table->parameters(), 0.5);
  EXPECT_EQ(table->weight.grad().to_dense()[1][0].item<float>(), 1);
}

// ---- Gradient merge ---------------------------------------------------------

at::Tensor loss_of(const at::Tensor& weight, int batch) {
  torch::manual_seed(batch);
  return (torch::randn({4, 3}).matmul(weight)).pow(2).sum();
}

void check_merge(bool avg) {
  at::Tensor merged = torch::ones({3}, torch::requires_grad());
  at::Tensor whole = torch::ones({3}, torch::requires_grad());
  SGD inner(Tensors{merged}, SGDOptions(0.01).momentum(0.9));
  GradientMerge merge(inner, {.k_steps = 3, .avg = avg});
  SGD outer(Tensors{whole}, SGDOptions(0.01).momentum(0.9));
  for (int batch = 0; batch < 12; ++batch) {
    EXPECT_EQ(merge.will_step(), batch % 3 == 2);
    merge.zero_grad();
    loss_of(merged, batch).backward();
    EXPECT_EQ(merge.step(), batch % 3 == 2);
  }
  for (int step = 0; step < 4; ++step) {
    outer.zero_grad();
    at::Tensor loss = torch::zeros({});
    for (int batch = 3 * step; batch < 3 * step + 3; ++batch) {
      loss = loss + loss_of(whole, batch);
    }
    (avg ? loss / 3 : loss).backward();
    outer.step();
  }
  EXPECT_TRUE(torch::allclose(merged, whole, 1e-5, 1e-6));
}

TEST(GradientMerge, EqualsOneStepOnAllBatches) {
  check_merge(true);
  check_merge(false);
}

TEST(GradientMerge, RefusesNoSteps) {
  at::Tensor p = torch::ones({3}, torch::requires_grad());
  SGD inner(Tensors{p}, SGDOptions(0.01));
  EXPECT_THROW(GradientMerge(inner, {.k_steps = 0}), InvalidArgument);
}

// ---- EMA --------------------------------------------------------------------

void check_ema(const EmaOptions& options, c10::ScalarType type) {
  const Tensors params = make_params(type);
  Ema ema(params, options);
  std::vector<at::Tensor> expected;
  for (const at::Tensor& param : params) {
    const at::Tensor start = param.detach().to(torch::kDouble).clone();
    expected.push_back(
        options.bias_correction ? torch::zeros_like(start) : start);
  }
  for (int step = 0; step < 5; ++step) {
    for (std::size_t i = 0; i < params.size(); ++i) {
      params[i].data().add_(step + 1);
      expected[i] = options.decay * expected[i] +
          (1 - options.decay) * params[i].detach().to(torch::kDouble);
    }
    ema.update();
  }
  const double correction =
      options.bias_correction ? 1 - std::pow(options.decay, 5) : 1;
  Tensors own;
  for (const at::Tensor& param : params) {
    own.push_back(param.detach().clone());
  }
  ema.apply();
  for (std::size_t i = 0; i < params.size(); ++i) {
    const at::Tensor want = (expected[i] / correction).to(type);
    EXPECT_TRUE(torch::allclose(params[i], want, 1e-2, 1e-5));
    EXPECT_TRUE(torch::allclose(
        ema.average(i).to(torch::kDouble),
        expected[i] / correction,
        1e-5,
        1e-6));
  }
  ema.restore();
  for (std::size_t i = 0; i < params.size(); ++i) {
    EXPECT_TRUE(torch::equal(params[i], own[i]));
  }
}

TEST(Ema, AveragesParameters) {
  for (const auto type : {torch::kFloat, torch::kDouble, torch::kBFloat16}) {
    check_ema({.decay = 0.9}, type);
    check_ema({.decay = 0.9, .bias_correction = true}, type);
  }
}

TEST(Ema, MixesTypesAndResumes) {
  const Tensors params = {
      torch::ones({3}), torch::ones({2}, torch::kDouble), torch::ones({5})};
  Ema first(params, {.decay = 0.5});
  params[1].fill_(3);
  first.update();
  EXPECT_TRUE(
      torch::equal(first.average(1), torch::full({2}, 2.0, torch::kDouble)));
  Ema second(params, {.decay = 0.5});
  second.load(first.state(), first.num_updates());
  first.update();
  second.update();
  for (std::size_t i = 0; i < params.size(); ++i) {
    EXPECT_TRUE(torch::equal(first.average(i), second.average(i)));
  }
}

TEST(Ema, RefusesTheWrongOrder) {
  const Tensors params = {torch::ones({3})};
  EXPECT_THROW(Ema(params, {.decay = 1}), InvalidArgument);
  Ema ema(params, {.decay = 0.5, .bias_correction = true});
  EXPECT_THROW(ema.apply(), InvalidArgument);
  EXPECT_THROW(ema.restore(), InvalidArgument);
  ema.update();
  ema.apply();
  EXPECT_THROW(ema.apply(), InvalidArgument);
  EXPECT_THROW(ema.update(), InvalidArgument);
}

// ---- Local SGD --------------------------------------------------------------

// In each step rank r subtracts (r + 1) * (step + 1): all values are small
// integers and halves, so sums are exact.
double moved(int rank, int step) {
  return (rank + 1) * (step + 1);
}

TEST(LocalSgd, AveragesEveryKSteps) {
  testing::run_ranks(2, [](World& world) {
    const Tensors params = {
        torch::full({3}, 64.f), torch::full({2, 2}, 32.0, torch::kDouble)};
    LocalSgd local(params, {.k_steps = 3, .begin_step = 2});
    double mine = 0; // how far this rank is from the common start
    double all = 0;
    for (int step = 0; step < 9; ++step) {
      for (const at::Tensor& param : params) {
        param.sub_(moved(world.rank(), step));
      }
      mine += moved(world.rank(), step);
      all += moved(0, step) / 2 + moved(1, step) / 2;
      // Steps 1 and 2 by begin_step, then 5 and 8.
      const bool due = step == 0 || step == 1 || step == 4 || step == 7;
      EXPECT_EQ(local.step(), due) << step;
      mine = due ? all : mine;
      EXPECT_EQ(params[0][0].item<double>(), 64 - mine) << step;
      EXPECT_EQ(params[1][1][1].item<double>(), 32 - mine) << step;
    }
  });
}

TEST(LocalSgd, AveragesWithinAGroup) {
  testing::run_ranks(3, [](World& world) {
    const auto group = new_group({0, 2});
    const at::Tensor param = torch::full({2}, 10.f);
    if (world.rank() == 1) {
      return;
    }
    LocalSgd local({param}, {}, group);
    param.sub_(world.rank());
    EXPECT_TRUE(local.step());
    EXPECT_EQ(param[0].item<float>(), 9);
  });
}

TEST(LocalSgd, RefusesNoSteps) {
  const Tensors params = {torch::ones({1})};
  EXPECT_THROW(LocalSgd(params, {.k_steps = 0}), InvalidArgument);
  EXPECT_THROW(LocalSgd(params, {.begin_step = 0}), InvalidArgument);
}

TEST(AdaptiveLocalSgd, StepsFollowTheFormula) {
  EXPECT_EQ(next_k_steps(4, 0.1, 2, 0.1, 2), 2);  // sqrt(4)
  EXPECT_EQ(next_k_steps(4, 0.1, 2, 0.1, 1), 2);  // ceil(sqrt(2))
  EXPECT_EQ(next_k_steps(4, 0.1, 2, 0.01, 1), 5); // ceil(sqrt(20))
  EXPECT_EQ(next_k_steps(1, 0.1, 2, 0.1, 1e-9), 1);
  EXPECT_EQ(next_k_steps(100, 0.1, 1e-9, 0.1, 1), 16);
  EXPECT_EQ(next_k_steps(1, 0.1, 0, 0.1, 0), 16);
}

TEST(AdaptiveLocalSgd, AgreesOnTheNextAverage) {
  testing::run_ranks(2, [](World& world) {
    const at::Tensor param = torch::zeros({2});
    AdaptiveLocalSgd local({param}, {.init_k_steps = 4});
    // The mean loss of both ranks is 2, then 9/2.
    param.add_(2 * world.rank());
    EXPECT_TRUE(local.step(1 + 2 * world.rank(), 0.1));
    EXPECT_EQ(local.k_steps(), 2);
    EXPECT_EQ(param[0].item<float>(), 1);
    EXPECT_FALSE(local.step(100, 0.1));
    EXPECT_TRUE(local.step(3 + 3 * world.rank(), 0.1));
    EXPECT_EQ(local.k_steps(), 3); // sqrt(4.5 / 2 * 4) = 3
  });
}

} // namespace
} // namespace argosy::optim
