// Gradients of 16-bit parameters that add up in float32. Numbers are such that
// float32 sums are exact, and 16-bit ones lose all but the first.

#include "argosy/training/main_grads.h"

#include <gtest/gtest.h>

#include <cmath>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/data_parallel/data_parallel.h"
#include "argosy/optim/sgd.h"
#include "argosy/sharding/group_sharded.h"
#include "argosy/testing/gtest_ranks.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"
#include "tests/support/oracle_models.h"

namespace argosy {
namespace {

constexpr int kPasses = 64;
const float kTiny = std::ldexp(1.f, -9); // 1 + kTiny is 1 in bfloat16

// Each parameter's gradient is the input, rounded.
struct WeightsImpl : torch::nn::Module {
  explicit WeightsImpl(c10::ScalarType type = torch::kBFloat16) {
    for (const long size : {5, 300, 37}) {
      register_parameter(str("w", size), torch::zeros({size}, type));
    }
  }

  at::Tensor forward(const at::Tensor& x) {
    at::Tensor sum = torch::zeros({});
    for (const at::Tensor& w : parameters()) {
      sum = sum + (w * x.to(w.scalar_type())).to(torch::kFloat).sum();
    }
    return sum;
  }
};
TORCH_MODULE(Weights);

// 1, and then `tiny` again and again.
float input_of(int pass, float tiny) {
  return pass == 0 ? 1 : tiny;
}

float sum_of(float tiny) {
  return 1 + (kPasses - 1) * tiny;
}

void expect_grads(const Weights& weights, c10::ScalarType type, float value) {
  for (const at::Tensor& w : weights->parameters()) {
    ASSERT_TRUE(w.grad().defined());
    EXPECT_EQ(w.grad().scalar_type(), type);
    EXPECT_TRUE(w.grad().eq(value).all().item<bool>()) << w.grad().max();
  }
}

void run_passes(Weights weights, float tiny) {
  for (int pass = 0; pass < kPasses; ++pass) {
    weights(torch::tensor(input_of(pass, tiny))).backward();
  }
}

TEST(MainGrads, KeepWhatShortSumsLose) {
  for (const auto& [type, tiny] :
       {std::pair{torch::kBFloat16, kTiny}, {torch::kHalf, kTiny / 8}}) {
    Weights weights(type);
    run_passes(weights, tiny);
    expect_grads(weights, type, 1);
    weights->zero_grad();
    {
      const training::MainGrads main(weights->parameters());
      run_passes(weights, tiny);
      expect_grads(weights, torch::kFloat, sum_of(tiny));
    }
    weights->zero_grad(true); // zeros would stay float32
    run_passes(weights, tiny);
    expect_grads(weights, type, 1);
  }
}

TEST(MainGrads, ArriveInTheOptimizer) {
  Weights weights;
  const training::MainGrads main(weights->parameters());
  optim::SGD sgd(weights->parameters(), optim::SGDOptions(1));
  const at::Tensor expected =
      torch::tensor(-2 * sum_of(kTiny)).to(torch::kBFloat16);
  for (int step = 0; step < 2; ++step) {
    sgd.zero_grad();
    run_passes(weights, kTiny);
    sgd.step();
  }
  for (const at::Tensor& w : weights->parameters()) {
    EXPECT_TRUE(w.eq(expected).all().item<bool>());
  }
}

// Ranks have different inputs; all but the last pass are local.
template <typename Model>
void run_merged(Model& model, int rank) {
  for (int pass = 0; pass < kPasses; ++pass) {
    const auto local = pass + 1 < kPasses
        ? std::make_optional<training::NoSync>(model.core())
        : std::nullopt;
    const float tiny = kTiny * static_cast<float>(rank + 1);
    model(torch::tensor(input_of(pass, tiny))).backward();
  }
}

// The average of 1..n times the tiny one.
float average_of(int num_ranks) {
  return sum_of(kTiny * static_cast<float>(num_ranks + 1) / 2);
}

void expect_averages_of_data_parallel(World& world) {
  Weights weights;
  DataParallel<Weights> model(
      weights,
      DataParallelOptions{
          .comm_buffer_size = 1e-4,
          .last_comm_buffer_size = 1e-4,
          .main_grad = true});
  for (int step = 0; step < 3; ++step) {
    model.zero_grad();
    run_merged(model, world.rank());
    expect_grads(weights, torch::kFloat, average_of(world.size()));
  }
}

TEST(MainGrads, AreAveragedByDataParallel) {
  for (const int num_ranks : {1, 2, 4}) {
    testing::run_ranks(num_ranks, expect_averages_of_data_parallel);
  }
}

// Gradients that are zeroed, not dropped, stay where they are.
TEST(MainGrads, StayAfterZeroing) {
  testing::run_ranks(2, [](World& world) {
    Weights weights;
    DataParallel<Weights> model(
        weights, DataParallelOptions{.main_grad = true});
    optim::SGD sgd(weights->parameters(), optim::SGDOptions(1));
    for (int step = 0; step < 3; ++step) {
      sgd.zero_grad();
      run_merged(model, world.rank());
      expect_grads(weights, torch::kFloat, average_of(2));
    }
  });
}

void expect_averages_of_parts(
    World& world,
    const std::string& level,
    sharding::ShardingOptions options = {}) {
  Weights weights;
  optim::SGD sgd(weights->parameters(), optim::SGDOptions(1));
  options.buffer_max_size = 100;
  options.segment_size = 10;
  options.main_grad = true;
  auto [model, optimizer, scaler] = sharding::group_sharded_parallel(
      weights, sgd, level, std::nullopt, options);
  for (int step = 1; step <= 3; ++step) {
    optimizer.zero_grad();
    run_merged(model, world.rank());
    for (const sharding::OwnPiece& piece : model.core()->pieces()) {
      const at::Tensor& grad = piece.tensor.grad();
      EXPECT_EQ(grad.scalar_type(), torch::kFloat);
      EXPECT_TRUE(grad.eq(average_of(world.size())).all().item<bool>());
    }
    optimizer.step();
    const auto whole = model.whole();
    const at::Tensor expected =
        torch::tensor(-step * average_of(world.size())).to(torch::kBFloat16);
    for (const at::Tensor& w : weights->parameters()) {
      EXPECT_TRUE(w.eq(expected).all().template item<bool>()) << level;
    }
  }
}

// Parts add up too, where every pass is reduced.
void expect_sums_of_parts(World& world, const std::string& level) {
  Weights weights;
  optim::SGD sgd(weights->parameters(), optim::SGDOptions(1));
  sharding::ShardingOptions options;
  options.main_grad = true;
  auto [model, optimizer, scaler] = sharding::group_sharded_parallel(
      weights, sgd, level, std::nullopt, options);
  for (int pass = 0; pass < kPasses; ++pass) {
    const float tiny = kTiny * static_cast<float>(world.rank() + 1);
    model(torch::tensor(input_of(pass, tiny))).backward();
  }
  for (const sharding::OwnPiece& piece : model.core()->pieces()) {
    EXPECT_TRUE(
        piece.tensor.grad().eq(average_of(world.size())).all().item<bool>())
        << level;
  }
}

TEST(MainGrads, AreAveragedByEveryLevelOfSharding) {
  for (const char* level : {"os", "os_g", "p_g_os"}) {
    for (const int num_ranks : {1, 2, 4}) {
      testing::run_ranks(num_ranks, [&](World& world) {
        expect_averages_of_parts(world, level);
        expect_sums_of_parts(world, level);
      });
    }
  }
}

TEST(MainGrads, MayLieInFiles) {
  testing::run_ranks(2, [](World& world) {
    const TempDir dir; // of this rank
    sharding::ShardingOptions options;
    options.offload =
        offload::OffloadOptions{.offload_path = dir.path().string()};
    options.offload_params = true;
    options.offload_grads = true;
    expect_averages_of_parts(world, "p_g_os", options);
  });
}

TEST(MainGrads, AreAveragedBetweenProcesses) {
  testing::run_process_ranks(2, [](World& world) {
    expect_averages_of_data_parallel(world);
    for (const char* level : {"os", "os_g", "p_g_os"}) {
      expect_averages_of_parts(world, level);
    }
  });
}

} // namespace
} // namespace argosy
