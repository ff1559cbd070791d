// Sharded training whose states are in a file besides: the same bits.

#include <gtest/gtest.h>

#include "argosy/common/file.h"
#include "argosy/observe/tensor_memory.h"
#include "argosy/offload/states.h"
#include "argosy/optim/adam.h"
#include "argosy/sharding/group_sharded.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"
#include "tests/support/oracle_models.h"

namespace argosy {
namespace {

struct Trained {
  optim::StateDict states; // of whole parameters
  std::vector<double> losses;
};

Trained train(
    const World& world,
    const std::string& level,
    const offload::OffloadOptions* where,
    const sharding::ShardingOptions& options = {}) {
  const testing::OracleModel of = testing::oracle_models().back();
  torch::nn::AnyModule net = of.make_with_weights();
  optim::AdamW adam(net.ptr()->parameters());
  auto sharded =
      sharding::group_sharded_parallel(net, adam, level, std::nullopt, options);
  if (where != nullptr) {
    offload::offload_states(adam, *where, 1000);
  }
  Trained trained;
  for (int step = 0; step < 4; ++step) {
    const auto batch =
        testing::part_of(of.batch(12, step), world.rank(), world.size());
    sharded.optimizer.zero_grad();
    const at::Tensor loss =
        testing::loss_of(sharded.model.forward(batch.x), batch.target);
    loss.backward();
    sharded.optimizer.step();
    trained.losses.push_back(loss.item<double>());
  }
  trained.states = sharded.optimizer.state_dict();
  return trained;
}

void expect_same(const Trained& trained, const Trained& expected) {
  EXPECT_EQ(trained.losses, expected.losses);
  ASSERT_EQ(trained.states.size(), expected.states.size());
  for (const auto& [name, state] : expected.states) {
    EXPECT_TRUE(torch::equal(trained.states.at(name), state)) << name;
  }
}

class OffloadSharding : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(
    Levels, OffloadSharding, ::testing::Values("os", "os_g", "p_g_os"));

TEST_P(OffloadSharding, GivesTheSameBits) {
  testing::run_ranks(2, [](World& world) {
    const TempDir dir; // of this rank
    const Trained expected = train(world, GetParam(), nullptr);
    const offload::OffloadOptions where{
        .offload_path = dir.path().string(), .offload_cpu_size = 5000};
    expect_same(train(world, GetParam(), &where), expected);
    sharding::ShardingOptions everything;
    everything.offload = where;
    const auto level = sharding::level_of(GetParam());
    everything.offload_params = level == sharding::Level::p_g_os;
    everything.offload_grads = level != sharding::Level::os;
    expect_same(train(world, GetParam(), nullptr, everything), expected);
  });
}

// What leaves a rank's memory: all but what is in use.
TEST(OffloadShardingMemory, KeepsNoPartsInMemory) {
  testing::run_ranks(2, [](World&) {
    const TempDir dir;
    TensorMemory memory;
    const std::int64_t before = memory.current();
    torch::nn::Sequential net;
    for (int i = 0; i < 32; ++i) {
      net->push_back(torch::nn::Linear(128, 128));
    }
    optim::Adam adam(net->parameters(), optim::AdamOptions(1e-3));
    sharding::ShardingOptions options;
    options.segment_size = 0;
    options.buffer_max_size = 4 * (128 * 128 + 128);
    options.keep_memory = false; // it would not be counted
    options.offload = {.offload_path = dir.path().string()};
    options.offload_params = true;
    options.offload_grads = true;
    auto [model, optimizer, scaler] = sharding::group_sharded_parallel(
        net, adam, "p_g_os", std::nullopt, options);
    const at::Tensor x = torch::ones({1, 128});
    for (int step = 0; step < 2; ++step) {
      model(x).mean().backward();
      optimizer.step();
      optimizer.zero_grad();
    }
    const std::int64_t unit = 4 * (128 * 128 + 128);
    // Four buffers of units, three of states, and small things; without, it is
    // 68 units.
    EXPECT_LE(memory.current() - before, 8 * unit);
  });
}

} // namespace
} // namespace argosy
