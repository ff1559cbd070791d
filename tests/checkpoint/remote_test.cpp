// Checkpoints on servers that are not ours, with faults on the way.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdlib>

#include "argosy/checkpoint/checkpointer.h"
#include "argosy/data_parallel/data_parallel.h"
#include "argosy/optim/adam.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"
#include "tests/fs/peers.h"

namespace argosy::checkpoint {
namespace {

class Remote : public ::testing::TestWithParam<testing::PeerKind> {};
INSTANTIATE_TEST_SUITE_P(
    Checkpoint,
    Remote,
    ::testing::ValuesIn(testing::kServers),
    [](const auto& of) { return testing::peer_name(of.param); });

TEST_P(Remote, SavesAndLoadsThroughFaults) {
  testing::Peer& peer = testing::shared_peer(GetParam());
  const Environment environment = peer.environment();
  for (const auto& [name, value] : environment.variables()) {
    ::setenv(name.c_str(), value.c_str(), 1);
  }
  const std::string folder = peer.new_folder();
  peer.faults().set_random(15, 7); // whatever it meets, nothing is lost
  at::Tensor expected;
  testing::run_ranks(2, [&](World& world) {
    torch::nn::Linear net(300, 200);
    DataParallel model(net);
    optim::Adam adam(net->parameters(), 0.1);
    State state{model, adam};
    Checkpointer saver(folder, {.keep = {.last = 2}});
    for (int step = 1; step <= 3; ++step) {
      model.zero_grad();
      model(torch::full({2, 300}, 0.1 * step)).sum().backward();
      adam.step();
      saver.save(state, step);
    }
    if (world.rank() == 0) {
      expected = net->weight.detach().clone();
    }
  });
  testing::run_ranks(3, [&](World&) {
    torch::nn::Linear net(300, 200);
    DataParallel model(net);
    optim::Adam adam(net->parameters(), 0.1);
    State state{model, adam};
    EXPECT_EQ(load(folder, state).step, 3);
    EXPECT_TRUE(net->weight.equal(expected));
  });
  peer.faults().set_random(0, 0);
  const auto found =
      Folder(fs::open(folder)).list(Deadline::after(std::chrono::seconds(20)));
  ASSERT_EQ(found.size(), 2u);
  EXPECT_TRUE(found[0].committed && found[1].committed);
  EXPECT_EQ(peer.num_leftovers(), 0);
}

} // namespace
} // namespace argosy::checkpoint
