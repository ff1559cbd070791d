// Gradients that are sent as less, and batch norm over ranks: against plain
// averages and one process.

#include "argosy/data_parallel/compression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <limits>

#include "argosy/comm/traffic.h"
#include "argosy/common/error.h"
#include "argosy/data_parallel/data_parallel.h"
#include "argosy/data_parallel/sync_batch_norm.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"

namespace argosy {
namespace {

using data_parallel::BucketHook;

// Learns a linear map of 64 inputs to 32 outputs; returns the last loss.
double last_loss(
    World& world,
    const std::shared_ptr<BucketHook>& hook,
    double momentum,
    int steps) {
  torch::nn::Linear net(torch::nn::LinearOptions(64, 32).bias(false));
  {
    const at::NoGradGuard no_grad;
    net->weight.zero_();
  }
  const auto truth =
      (torch::arange(64 * 32) * 37 % 101 - 50).reshape({32, 64}) / 100.0;
  DataParallel model(net, DataParallelOptions{.hook = hook});
  torch::optim::SGD optimizer(
      net->parameters(), torch::optim::SGDOptions(0.05).momentum(momentum));
  double loss_value = 0;
  for (int step = 0; step < steps; ++step) {
    const auto x =
        ((torch::arange(16 * 64) * 31 + 977 * step + 13 * world.rank()) % 89 -
         44)
            .reshape({16, 64}) /
        44.0;
    optimizer.zero_grad();
    const auto loss =
        torch::mse_loss(
            model(x.to(torch::kFloat)), x.mm(truth.t()).to(torch::kFloat)) *
        32;
    loss.backward();
    optimizer.step();
    loss_value = loss.item<double>();
  }
  return loss_value;
}

TEST(Compression, HalvesAndBfloat16Converge) {
  argosy::testing::run_ranks(2, [](World& world) {
    const double plain = last_loss(world, nullptr, 0, 60);
    const auto before = get_group()->traffic().total().bytes;
    const double half = last_loss(world, fp16_compression(), 0, 60);
    const auto sent = get_group()->traffic().total().bytes - before;
    const double bfloat = last_loss(world, bf16_compression(), 0, 60);
    const double start = last_loss(world, nullptr, 0, 1);
    EXPECT_LT(plain, 0.2 * start);
    EXPECT_NEAR(half, plain, 0.02 * plain);
    EXPECT_NEAR(bfloat, plain, 0.1 * plain);
    EXPECT_LT(sent, 60 * 64 * 32 * 2 + 20000) << "two bytes for each number";
  });
}

TEST(Compression, HalfIsTheAverageRoundedOnce) {
  argosy::testing::run_ranks(3, [](World& world) {
    torch::nn::Linear net(torch::nn::LinearOptions(2, 1).bias(false));
    DataParallel model(net, DataParallelOptions{.hook = fp16_compression()});
    model(torch::tensor({{1.0f + world.rank(), 0.25f}})).sum().backward();
    EXPECT_TRUE(
        torch::equal(net->weight.grad(), torch::tensor({{2.0f, 0.25f}})));
  });
}

TEST(Compression, PowerSgdConvergesAndSendsLess) {
  argosy::testing::run_ranks(2, [](World& world) {
    const double plain = last_loss(world, nullptr, 0, 120);
    const auto before = get_group()->traffic().total().bytes;
    const double low_rank =
        last_loss(world, power_sgd({.rank = 4, .start_step = 5}), 0, 120);
    const auto sent = get_group()->traffic().total().bytes - before;
    EXPECT_LT(low_rank, 2 * plain) << "plain: " << plain;
    EXPECT_LT(sent, 120u * 64 * 32 * 4 / 4);
  });
}

TEST(Compression, PowerSgdOfALowRankGradientIsExact) {
  argosy::testing::run_ranks(2, [](World& world) {
    torch::nn::Linear net(torch::nn::LinearOptions(32, 32).bias(false));
    DataParallel model(
        net,
        DataParallelOptions{.hook = power_sgd({.rank = 2, .start_step = 0})});
    // One sample on each of two ranks: the average has rank two at most.
    const auto x = (torch::arange(32.0f) + 1).remainder(7 + world.rank());
    model(x.unsqueeze(0)).sum().backward();
    at::Tensor expected = torch::ones({32, 1}).mm(x.unsqueeze(0));
    all_reduce(expected, ReduceOp::AVG);
    EXPECT_TRUE(torch::allclose(net->weight.grad(), expected, 1e-3, 1e-3));
  });
}

TEST(Compression, DgcSendsTheLargestAndKeepsTheRest) {
  argosy::testing::run_ranks(2, [](World& world) {
    torch::nn::Linear net(torch::nn::LinearOptions(4, 1).bias(false));
    DataParallel model(
        net,
        DataParallelOptions{
            .hook = deep_gradient_compression(
                {.sparsity = {0.75}, .momentum = 0.5, .min_count = 1})});
    const auto step = [&](std::vector<float> x) {
      net->zero_grad();
      model(torch::tensor(x).unsqueeze(0)).sum().backward();
      return net->weight.grad().view({-1}).clone();
    };
    // One entry of four is sent by each rank.
    const auto first =
        world.rank() == 0 ? step({4, 1, 0, 0}) : step({0, 1, 0, 8});
    EXPECT_TRUE(torch::equal(first, torch::tensor({2.0f, 0.0f, 0.0f, 4.0f})));
    // What was left of place 1: v = 1 + (0.5 + 1) = 2.5 on both ranks.
    const auto second = step({0, 1, 0, 0});
    EXPECT_TRUE(torch::equal(second, torch::tensor({0.0f, 2.5f, 0.0f, 0.0f})));
    // Momentum was cleared where it was sent.
    const auto third = step({0, 1, 0, 0});
    EXPECT_TRUE(torch::equal(third, torch::tensor({0.0f, 1.0f, 0.0f, 0.0f})));
  });
}

TEST(Compression, DgcWithWarmUpConverges) {
  argosy::testing::run_ranks(2, [](World& world) {
    const double plain = last_loss(world, nullptr, 0.5, 150);
    const double compressed = last_loss(
        world,
        deep_gradient_compression(
            {.rampup_begin_step = 10,
             .rampup_step = 40,
             .sparsity = {0.5, 0.75, 0.9},
             .momentum = 0.5,
             .min_count = 1024}),
        0,
        500);
    const double start = last_loss(world, nullptr, 0, 1);
    EXPECT_LT(compressed, 0.05 * start);
    EXPECT_LT(compressed, 5 * plain + 0.01 * start);
    EXPECT_THROW(
        deep_gradient_compression({.sparsity = {1.5}}), InvalidArgument);
  });
}

// Averages of one step after the other; `scales` has one for each, and 0 for
// steps whose gradients are not finite on rank 1.
std::vector<at::Tensor> averages(
    World& world,
    const std::shared_ptr<BucketHook>& hook,
    const std::vector<double>& scales) {
  torch::nn::Linear net(torch::nn::LinearOptions(64, 32).bias(false));
  DataParallel model(net, DataParallelOptions{.hook = hook});
  std::vector<at::Tensor> results;
  int batch = 0;
  for (const double scale : scales) {
    const bool is_finite = scale != 0;
    hook->set_loss_scale(is_finite ? scale : 1);
    const at::Tensor x =
        ((torch::arange(16 * 64) * 31 + 977 * batch + 13 * world.rank()) % 89 -
         44)
            .reshape({16, 64})
            .to(torch::kFloat);
    batch += is_finite;
    const at::Tensor weight =
        (torch::arange(32, torch::kFloat) + 1).remainder(3 + world.rank());
    const float factor = is_finite ? static_cast<float>(scale)
        : world.rank() == 1        ? std::numeric_limits<float>::infinity()
                                   : 1.0f;
    net->zero_grad();
    ((model(x) * weight).sum() * factor).backward();
    const bool taken =
        net->weight.grad().isfinite().all().template item<bool>();
    EXPECT_EQ(taken, is_finite);
    hook->settle(taken);
    if (taken) {
      results.push_back(net->weight.grad() / scale);
    }
  }
  return results;
}

// A step that is skipped leaves no trace, and the scale of the loss none.
TEST(Compression, FollowsTheScaleOfTheLoss) {
  const std::vector<double> once(8, 1);
  const std::vector<double> changing{1, 0, 1, 8, 8, 0, 0, 0.5, 64, 64, 2};
  using Make = std::function<std::shared_ptr<BucketHook>()>;
  const std::vector<Make> hooks{
      [] {
        return deep_gradient_compression(
            {.rampup_begin_step = 2,
             .sparsity = {0.9},
             .momentum = 0.5,
             .clip_norm = 100,
             .min_count = 1});
      },
      [] { return power_sgd({.rank = 2, .start_step = 2}); }};
  for (const int n : {2, 3}) {
    for (const Make& make : hooks) {
      argosy::testing::run_ranks(n, [&](World& world) {
        const auto expected = averages(world, make(), once);
        const auto got = averages(world, make(), changing);
        ASSERT_EQ(got.size(), expected.size());
        for (std::size_t i = 0; i < got.size(); ++i) {
          EXPECT_TRUE(torch::allclose(got[i], expected[i], 1e-4, 1e-4)) << i;
        }
      });
    }
  }
}

// A checkpoint knows the scale of what it has.
TEST(Compression, KeepsTheScaleInItsMemory) {
  argosy::testing::run_ranks(2, [](World& world) {
    const auto make = [] { return power_sgd({.rank = 2, .start_step = 0}); };
    const auto before = make();
    averages(world, before, {1, 16, 16});
    const auto after = make();
    after->set_memory(before->memory());
    const auto got = averages(world, after, {2});
    const auto expected = averages(world, before, {16});
    EXPECT_TRUE(torch::allclose(got[0], expected[0], 1e-4, 1e-4));
  });
}

// One that was written without it is of the scale that goes on.
TEST(Compression, TakesAMemoryWithoutAScale) {
  argosy::testing::run_ranks(2, [](World& world) {
    const auto make = [] { return power_sgd({.rank = 2, .start_step = 0}); };
    const auto before = make();
    averages(world, before, {16, 16});
    auto memory = before->memory();
    EXPECT_EQ(memory.erase("0.scale"), 1u);
    const auto after = make();
    after->set_memory(memory);
    const auto got = averages(world, after, {16});
    const auto expected = averages(world, before, {16});
    EXPECT_TRUE(torch::allclose(got[0], expected[0], 1e-4, 1e-4));
  });
}

struct ConvNetImpl : torch::nn::Module {
  torch::nn::Conv2d conv{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Linear head{nullptr};

  ConvNetImpl() {
    conv = register_module("conv", torch::nn::Conv2d(1, 4, 3));
    norm = register_module("norm", torch::nn::BatchNorm2d(4));
    head = register_module("head", torch::nn::Linear(4 * 4 * 4, 2));
    const at::NoGradGuard no_grad;
    int index = 0;
    for (auto& parameter : parameters()) {
      parameter.copy_(
          ((torch::arange(parameter.numel()) * 7 + ++index) % 11 - 5)
              .reshape(parameter.sizes()) /
          10.0);
    }
  }
  at::Tensor forward(const at::Tensor& x) {
    return head(norm(conv(x)).relu().flatten(1));
  }
};
TORCH_MODULE(ConvNet);

at::Tensor images(int step) {
  return ((torch::arange(8 * 36) * 13 + step * 5) % 17).reshape({8, 1, 6, 6}) /
      17.0;
}

TEST(SyncBatchNorm, ConvertedModuleEqualsOneProcess) {
  for (const int n : {1, 2, 4}) {
    ConvNet alone;
    alone->to(torch::kDouble);
    torch::optim::SGD lone(alone->parameters(), 0.1);
    for (int step = 0; step < 5; ++step) {
      lone.zero_grad();
      alone(images(step).to(torch::kDouble)).pow(2).mean().backward();
      lone.step();
    }
    argosy::testing::run_ranks(n, [&](World& world) {
      ConvNet net;
      net->to(torch::kDouble);
      EXPECT_EQ(convert_sync_batchnorm(*net), 1);
      DataParallel model(net);
      torch::optim::SGD optimizer(net->parameters(), 0.1);
      for (int step = 0; step < 5; ++step) {
        optimizer.zero_grad();
        model(images(step).to(torch::kDouble).chunk(n)[world.rank()])
            .pow(2)
            .mean()
            .backward();
        optimizer.step();
      }
      for (const auto& item : alone->named_parameters()) {
        EXPECT_TRUE(torch::allclose(
            item.value(), net->named_parameters()[item.key()], 1e-9, 1e-11))
            << item.key();
      }
      EXPECT_TRUE(
          torch::allclose(net->norm->running_mean, alone->norm->running_mean));
      EXPECT_TRUE(
          torch::allclose(net->norm->running_var, alone->norm->running_var));
      // In evaluation no rank waits for another.
      net->eval();
      alone->eval();
      if (world.rank() == 0) {
        EXPECT_TRUE(torch::allclose(
            net(images(9).to(torch::kDouble)),
            alone(images(9).to(torch::kDouble))));
      }
    });
  }
}

TEST(SyncBatchNorm, ModuleOfItsOwnWithUnevenBatches) {
  argosy::testing::run_ranks(2, [](World& world) {
    SyncBatchNorm norm(torch::nn::BatchNormOptions(3));
    norm->to(torch::kDouble);
    torch::nn::BatchNorm1d alone(3);
    alone->to(torch::kDouble);
    const auto whole =
        ((torch::arange(15) * 7) % 13).reshape({5, 3}).to(torch::kDouble);
    const auto expected = alone(whole);
    const auto part =
        world.rank() == 0 ? whole.narrow(0, 0, 1) : whole.narrow(0, 1, 4);
    const auto result = norm(part);
    EXPECT_TRUE(torch::allclose(
        result,
        world.rank() == 0 ? expected.narrow(0, 0, 1)
                          : expected.narrow(0, 1, 4)));
    EXPECT_TRUE(torch::allclose(norm->running_var, alone->running_var));
  });
}

TEST(SyncBatchNorm, OthersStayAsTheyAre) {
  torch::nn::BatchNorm2d plain(2);
  const auto x = torch::arange(32.0f).reshape({2, 2, 2, 4});
  const auto y = plain(x);
  EXPECT_NEAR(y.mean().item<float>(), 0, 1e-5);
  argosy::testing::run_ranks(2, [&](World& world) {
    torch::nn::BatchNorm2d norm(2);
    if (world.rank() == 0) { // not converted: no rank takes part
      EXPECT_TRUE(torch::allclose(norm(x), y));
    }
  });
}

} // namespace
} // namespace argosy
