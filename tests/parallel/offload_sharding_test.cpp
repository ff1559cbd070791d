// Sharded training whose states are in a file besides: the same bits.

#include <gtest/gtest.h>

#include "argosy/common/file.h"
#include "argosy/optim/adam.h"
#include "argosy/parallel/offload/states.h"
#include "argosy/parallel/sharding/group_sharded.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"
#include "tests/parallel/oracle_models.h"

namespace argosy {
namespace {

struct Trained {
  optim::StateDict states; // of whole parameters
  std::vector<double> losses;
};

Trained train(
    const World& world,
    const std::string& level,
    const parallel::OffloadOptions* where) {
  const testing::OracleModel of = testing::oracle_models().back();
  torch::nn::AnyModule net = of.make_with_weights();
  optim::AdamW adam(net.ptr()->parameters());
  auto sharded = sharding::group_sharded_parallel(net, adam, level);
  if (where != nullptr) {
    parallel::offload_states(adam, *where, 1000);
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

TEST(OffloadShardingRanks, EveryLevelGivesTheSameBits) {
  for (const std::string level : {"os", "os_g", "p_g_os"}) {
    testing::run_ranks(2, [&](World& world) {
      const TempDir dir; // of this rank
      const Trained expected = train(world, level, nullptr);
      const parallel::OffloadOptions where{
          .offload_path = dir.path().string(), .offload_cpu_size = 5000};
      const Trained trained = train(world, level, &where);
      EXPECT_EQ(trained.losses, expected.losses);
      ASSERT_EQ(trained.states.size(), expected.states.size());
      for (const auto& [name, state] : expected.states) {
        EXPECT_TRUE(torch::equal(trained.states.at(name), state)) << name;
      }
    });
  }
}

} // namespace
} // namespace argosy
