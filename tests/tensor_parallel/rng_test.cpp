// Streams of random numbers of a rank.

#include "argosy/tensor_parallel/rng.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "argosy/comm/ops.h"
#include "argosy/common/error.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"

namespace argosy {
namespace {

using argosy::testing::run_ranks;

TEST(RngStatesTracker, RefusesNamesAndSeedsTwice) {
  RngStatesTracker tracker;
  tracker.add("a", 1);
  EXPECT_THROW(tracker.add("a", 2), InvalidArgument);
  EXPECT_THROW(tracker.add("b", 1), InvalidArgument);
  EXPECT_THROW(tracker.rng_state("b"), InvalidArgument);
  tracker.reset();
  EXPECT_FALSE(tracker.has("a"));
  tracker.add("b", 1);
  EXPECT_TRUE(tracker.has("b"));
}

// A stream draws what torch's generator draws from the same seed.
at::Tensor drawn(std::uint64_t seed, const std::function<at::Tensor()>& draw) {
  torch::manual_seed(seed);
  return draw();
}

TEST(RngStatesTracker, ScopesReachInsideOfModulesAndOps) {
  const std::vector<std::function<at::Tensor()>> draws = {
      [] { return torch::rand({40}); },
      [] {
        return torch::randn({3, 40});
      },
      [] { return torch::randperm(40); },
      [] { return torch::nn::Dropout(0.4)(torch::ones({40})); },
      [] { return torch::dropout(torch::ones({40}), 0.5, true); },
      [] { return torch::bernoulli(torch::full({40}, 0.5)); },
      [] { return torch::nn::Linear(5, 8)->weight.detach().clone(); },
      [] {
        torch::nn::Embedding table(9, 5);
        return table->weight.detach().clone();
      }};
  for (std::size_t i = 0; i < draws.size(); ++i) {
    const at::Tensor expected = drawn(7, draws[i]);
    RngStatesTracker tracker;
    tracker.add("other", 7);
    torch::manual_seed(1);
    const at::Tensor before = drawn(1, draws[0]);
    torch::manual_seed(1);
    {
      const auto scope = tracker.rng_state("other");
      EXPECT_TRUE(torch::equal(draws[i](), expected)) << i;
    }
    EXPECT_TRUE(torch::equal(draws[0](), before)) << i << " left it untouched";
  }
}

TEST(RngStatesTracker, ScopesNestAndGradientsGoThrough) {
  RngStatesTracker tracker;
  tracker.add("a", 3);
  tracker.add("b", 4);
  const auto draw = [] { return torch::rand({5}); };
  const at::Tensor first = drawn(3, [&] { return torch::rand({10}); });
  const at::Tensor other = drawn(4, draw);
  const auto outer = tracker.rng_state("a");
  EXPECT_TRUE(torch::equal(draw(), first.slice(0, 0, 5)));
  {
    const auto inner = tracker.rng_state("b");
    EXPECT_TRUE(torch::equal(draw(), other));
  }
  EXPECT_TRUE(torch::equal(draw(), first.slice(0, 5)));
  const at::Tensor x = torch::ones({50}, torch::requires_grad());
  const at::Tensor y = torch::dropout(x, 0.5, true);
  y.sum().backward();
  EXPECT_TRUE(torch::equal(x.grad(), y.detach()));
}

TEST(RngStatesTracker, StatesDrawTheSameAgain) {
  RngStatesTracker tracker;
  tracker.add("a", 3);
  const auto draw = [](const RngStatesTracker& from) {
    const auto scope = from.rng_state("a");
    return torch::rand({5});
  };
  draw(tracker);
  const auto states = tracker.get_states();
  const at::Tensor expected = draw(tracker);
  tracker.set_states(states);
  EXPECT_TRUE(torch::equal(draw(tracker), expected));
  RngStatesTracker fresh;
  fresh.set_states(states);
  EXPECT_TRUE(torch::equal(draw(fresh), expected));
  EXPECT_THROW(fresh.add("b", 3), InvalidArgument) << "its seed is known";
}

at::Tensor gathered(const at::Tensor& own) {
  Tensors all;
  all_gather(all, own);
  return torch::stack(all);
}

TEST(RngStatesTrackerRanks, LocalMasksDifferAndGlobalOnesAreTheSame) {
  run_ranks(3, [](World& world) {
    const at::Tensor ones = torch::ones({200});
    EXPECT_THROW(
        tensor_parallel::dropout(ones, 0.5, kModelParallelRng),
        InvalidArgument);
    model_parallel_random_seed(5);
    for (int step = 0; step < 4; ++step) {
      const at::Tensor global = gathered(tensor_parallel::dropout(ones, 0.5));
      const at::Tensor local =
          gathered(tensor_parallel::dropout(ones, 0.5, kModelParallelRng));
      EXPECT_TRUE(torch::equal(global[0], global[1]));
      EXPECT_TRUE(torch::equal(global[0], global[2]));
      EXPECT_FALSE(torch::equal(local[0], local[1]));
      EXPECT_FALSE(torch::equal(local[1], local[2]));
      EXPECT_FALSE(torch::equal(local[0], global[0]));
    }
    EXPECT_TRUE(
        torch::equal(tensor_parallel::dropout(ones, 0.5, {}, false), ones));
    model_parallel_random_seed(5, {.mp_rank = 1, .pp_rank = 2, .pp_size = 4});
    EXPECT_EQ(
        rng_states_tracker()->generator(kModelParallelRng).current_seed(),
        5 + 1 + 1 * 4 + 2);
    EXPECT_EQ(world.size(), 3);
  });
}

} // namespace
} // namespace argosy
