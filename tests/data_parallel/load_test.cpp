// torch::load() into a model that DataParallel has wrapped.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <sstream>

#include "argosy/data_parallel/data_parallel.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"
#include "tests/support/numbers.h"

namespace argosy {
namespace {

using argosy::testing::numbers;

// It gives parameters new memory; their gradients are still averaged.
TEST(DataParallelLoad, GradientsAreAveragedAfterTorchLoad) {
  torch::nn::Linear saved(3, 2);
  std::ostringstream out;
  torch::save(saved, out);
  testing::run_ranks(2, [&](World& world) {
    torch::nn::Linear net(3, 2);
    DataParallel model(net);
    for (int step = 0; step < 3; ++step) {
      if (step > 0) {
        std::istringstream in(out.str());
        torch::load(net, in);
      }
      model.zero_grad();
      const at::Tensor x = numbers({4, 3}, world.rank() + 1).to(torch::kFloat);
      model(x).sum().backward();
      at::Tensor mean = x.sum(0);
      all_reduce(mean, ReduceOp::AVG);
      EXPECT_TRUE(torch::allclose(net->weight.grad()[0], mean)) << step;
      EXPECT_TRUE(step == 0 || torch::equal(net->weight, saved->weight));
    }
  });
}

} // namespace
} // namespace argosy
