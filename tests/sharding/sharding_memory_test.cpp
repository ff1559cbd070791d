// What a rank has in memory at most while it trains, against the formulas of
// ZeRO for Adam in float32: 16P bytes of P parameters without sharding.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "argosy/dtensor/deferred_init.h"
#include "argosy/observe/tensor_memory.h"
#include "argosy/optim/adam.h"
#include "argosy/sharding/group_sharded.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"

namespace argosy {
namespace {

constexpr long kWidth = 128;
constexpr long kLayers = 96;
constexpr long kCount = kLayers * (kWidth * kWidth + kWidth);
constexpr long kUnit = 4 * (kWidth * kWidth + kWidth); // bytes of a layer

torch::nn::Sequential make_net() {
  torch::nn::Sequential net;
  for (long i = 0; i < kLayers; ++i) {
    net->push_back(torch::nn::Linear(kWidth, kWidth));
  }
  return net;
}

struct Case {
  std::string level;
  double bytes; // of a parameter, on each of 4 ranks
};

class MemoryOfLevel : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(
    Levels,
    MemoryOfLevel,
    ::testing::Values(
        Case{"os", 8 + 8 / 4.0},
        Case{"os_g", 4 + 12 / 4.0},
        Case{"p_g_os", 16 / 4.0}),
    [](const auto& of) { return of.param.level; });

TEST_P(MemoryOfLevel, IsThatOfTheFormula) {
  testing::run_ranks(4, [](World&) {
    TensorMemory memory;
    const std::int64_t before = memory.current();
    torch::nn::Sequential net = make_net();
    optim::Adam adam(net->parameters(), optim::AdamOptions(1e-3));
    sharding::ShardingOptions options;
    options.buffer_max_size = kUnit;
    options.segment_size = 0;
    options.keep_memory = false; // it would not be counted
    auto [model, optimizer, scaler] = sharding::group_sharded_parallel(
        net, adam, GetParam().level, std::nullopt, options);
    const at::Tensor x = torch::ones({1, kWidth});
    for (int step = 0; step < 3; ++step) {
      if (step == 1) {
        memory.reset_peak(); // the states are there
      }
      model(x).mean().backward();
      optimizer.step();
      optimizer.zero_grad();
    }
    const double limit = GetParam().bytes * kCount * 1.05 + kUnit;
    const double peak = static_cast<double>(memory.peak() - before);
    EXPECT_LE(peak, limit);
    EXPECT_GE(peak, GetParam().bytes * kCount); // all of it is counted
    RecordProperty("bytes_per_parameter", std::to_string(peak / kCount));
  });
}

// A model that no rank could hold: each makes one parameter after the other,
// and keeps its parts.
TEST(ShardingMemory, OfAModelThatIsBuiltWithoutMemory) {
  testing::run_ranks(4, [](World&) {
    TensorMemory memory;
    const std::int64_t before = memory.current();
    memory.reset_peak();
    torch::nn::Sequential net;
    {
      const DeferredInit deferred;
      net = make_net();
    }
    sharding::ShardingOptions options;
    options.segment_size = 0;
    options.keep_memory = false;
    sharding::ShardedModel<torch::nn::Sequential> model(
        net, sharding::Level::p_g_os, options);
    const auto peak = static_cast<double>(memory.peak() - before);
    // Parts of parameters and gradients, buffers for 4 units, a parameter and
    // the numbers that are drawn in vain.
    EXPECT_LE(peak, 8 / 4.0 * kCount * 1.05 + 6 * kUnit);
    EXPECT_GE(peak, 8 / 4.0 * kCount);
    model(torch::ones({1, kWidth})).mean().backward();
  });
}

// As the microbatches of a pipeline.
TEST(ShardingMemory, OfGradientsBetweenPassesWithoutSync) {
  testing::run_ranks(4, [](World&) {
    for (const auto level : {sharding::Level::os_g, sharding::Level::p_g_os}) {
      TensorMemory memory;
      torch::nn::Sequential net = make_net();
      sharding::ShardingOptions options;
      options.buffer_max_size = kUnit;
      options.segment_size = 0;
      options.keep_memory = false;
      sharding::ShardedModel<torch::nn::Sequential> model(net, level, options);
      EXPECT_TRUE(model.core()->keeps_gradient_parts());
      const at::Tensor x = torch::ones({1, kWidth});
      const auto grown_by_pass = [&](bool reduces) {
        model.zero_grad();
        std::int64_t before = 0;
        {
          const auto alone = model.no_sync();
          model(x).mean().backward(); // makes what stays
          model.core()->reduce_gradients_early({});
          before = memory.current();
          model(x).mean().backward();
          if (reduces) {
            model.core()->reduce_gradients_early({});
          }
        }
        const std::int64_t after = memory.current();
        model.core()->reduce_gradients();
        return after - before;
      };
      EXPECT_GE(grown_by_pass(false), 4 * kCount);
      EXPECT_LE(grown_by_pass(true), kUnit);
    }
  });
}

} // namespace
} // namespace argosy
