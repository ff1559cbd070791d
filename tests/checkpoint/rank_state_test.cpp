// What each rank keeps for itself between steps: the errors of compressed
// gradients; and what ranks that step on their own have: local SGD.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mutex>

#include "argosy/checkpoint/checkpointer.h"
#include "argosy/common/file.h"
#include "argosy/data_parallel/compression.h"
#include "argosy/data_parallel/data_parallel.h"
#include "argosy/fleet/fleet.h"
#include "argosy/optim/local_sgd.h"
#include "argosy/sharding/group_sharded.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"
#include "tests/support/refusal.h"

namespace argosy::checkpoint {
namespace {

using data_parallel::BucketHook;
using ::testing::HasSubstr;
using MakeHook = std::function<std::shared_ptr<BucketHook>()>;

std::shared_ptr<BucketHook> small_power_sgd() {
  return power_sgd({.rank = 2, .start_step = 2});
}

std::shared_ptr<BucketHook> small_dgc() {
  return deep_gradient_compression(
      {.rampup_begin_step = 2,
       .rampup_step = 6,
       .sparsity = {0.5, 0.9, 0.99},
       .min_count = 100});
}

torch::nn::Linear zero_linear() {
  torch::nn::Linear net(64, 32);
  const torch::NoGradGuard no_grad;
  net->weight.zero_();
  net->bias.zero_();
  return net;
}

at::Tensor batch(int step, int rank) {
  return ((torch::arange(16 * 64) * 31 + 977 * step + 13 * rank) % 89 - 44)
             .reshape({16, 64})
             .to(torch::kFloat) /
      44;
}

at::Tensor loss_of(const at::Tensor& out, const at::Tensor& x) {
  return torch::mse_loss(out, x.narrow(1, 0, 32).cos()) * 32;
}

// The weights after the last step, of the first rank.
struct LastWeights {
  std::mutex mutex;
  at::Tensor values;

  void set(const at::Tensor& weight) {
    const std::lock_guard lock(mutex);
    values = weight.detach().clone();
  }
};

// Steps `from` to `to` with a hook; loads before the first one if `from` > 0,
// and saves after step 5.
at::Tensor run_compressed(
    int ranks,
    const MakeHook& make,
    const std::string& folder,
    int from,
    int to) {
  LastWeights last;
  testing::run_ranks(ranks, [&](World& world) {
    auto net = zero_linear();
    DataParallel model(net, DataParallelOptions{.hook = make()});
    torch::optim::SGD sgd(net->parameters(), 0.05);
    State state{model, sgd};
    if (from > 0) {
      load(folder, state);
    }
    for (int step = from; step < to; ++step) {
      const at::Tensor x = batch(step, world.rank());
      sgd.zero_grad();
      loss_of(model(x), x).backward();
      sgd.step();
      if (step == 5 && from == 0) {
        save(folder, state, step);
      }
    }
    if (world.rank() == 0) {
      last.set(net->weight);
    }
  });
  return last.values;
}

class Compressed : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(
    Checkpoint, Compressed, ::testing::Bool(), [](const auto& of) {
      return of.param ? "PowerSgd" : "Dgc";
    });

TEST_P(Compressed, ErrorsComeBack) {
  const TempDir folder;
  const MakeHook make = GetParam() ? small_power_sgd : small_dgc;
  const at::Tensor through = run_compressed(2, make, folder.path(), 0, 10);
  const at::Tensor resumed = run_compressed(2, make, folder.path(), 6, 10);
  EXPECT_TRUE(through.equal(resumed));
}

// On other ranks the errors begin anew, on all of them alike.
TEST_P(Compressed, ErrorsAreLeftOutOnOtherRanks) {
  const TempDir folder;
  const MakeHook make = GetParam() ? small_power_sgd : small_dgc;
  const at::Tensor through = run_compressed(2, make, folder.path(), 0, 10);
  const at::Tensor resumed = run_compressed(3, make, folder.path(), 6, 10);
  EXPECT_LT((through - resumed).abs().max().item<double>(), 0.2);
  EXPECT_GT(resumed.abs().max().item<double>(), 0);
}

// ZeRO 1 may compress, too.
TEST(CompressedZero, ErrorsComeBack) {
  const TempDir folder;
  LastWeights through;
  LastWeights resumed;
  for (const bool again : {false, true}) {
    testing::run_ranks(2, [&](World& world) {
      auto net = zero_linear();
      torch::optim::SGD sgd(net->parameters(), 0.05);
      auto [model, optimizer, scaler] = sharding::group_sharded_parallel(
          net, sgd, "os", std::nullopt, {.hook = small_power_sgd()});
      State state{model, optimizer};
      if (again) {
        load(folder.path(), state);
      }
      for (int step = again ? 6 : 0; step < 10; ++step) {
        const at::Tensor x = batch(step, world.rank());
        optimizer.zero_grad();
        loss_of(model(x), x).backward();
        optimizer.step();
        if (step == 5) {
          save(folder.path(), state, 5);
        }
      }
      if (world.rank() == 0) {
        (again ? resumed : through).set(net->weight);
      }
    });
  }
  EXPECT_TRUE(through.values.equal(resumed.values));
}

template <typename Local>
bool step_local(Local& local, double loss) {
  if constexpr (requires { local.step(); }) {
    return local.step();
  } else {
    return local.step(loss, 0.05);
  }
}

// Saves after 6 steps, between two averages, and continues.
template <typename Local, typename Options>
void expect_local_sgd_resumes(const Options& options) {
  const TempDir folder;
  LastWeights through;
  LastWeights resumed;
  for (const bool again : {false, true}) {
    testing::run_ranks(2, [&](World& world) {
      auto net = zero_linear();
      torch::optim::SGD sgd(net->parameters(), 0.05);
      Local local(net->parameters(), options);
      State state{net, sgd, local};
      if (again) {
        load(folder.path(), state);
      }
      for (int step = again ? 6 : 0; step < 12; ++step) {
        const at::Tensor x = batch(step, world.rank());
        sgd.zero_grad();
        const at::Tensor loss = loss_of(net(x), x);
        loss.backward();
        sgd.step();
        step_local(local, loss.item<double>());
        if (step == 5 && !again) {
          save(folder.path(), state, 5);
        }
      }
      if (world.rank() == 0) {
        (again ? resumed : through).set(net->weight);
      }
    });
  }
  EXPECT_TRUE(through.values.equal(resumed.values));
}

TEST(LocalSgdState, ComesBack) {
  expect_local_sgd_resumes<optim::LocalSgd>(
      optim::LocalSgdOptions{.k_steps = 4, .begin_step = 2});
}

TEST(LocalSgdState, OfAdaptiveOneComesBack) {
  expect_local_sgd_resumes<optim::AdaptiveLocalSgd>(
      optim::AdaptiveLocalSgdOptions{.init_k_steps = 7, .begin_step = 2});
}

// A save between two averages averages: all ranks have the same then.
TEST(LocalSgdState, SavesAveragedParameters) {
  const TempDir folder;
  testing::run_ranks(2, [&](World& world) {
    fleet::init(
        true,
        fleet::DistributedStrategy::from_json(
            R"({"localsgd": true, "localsgd_configs": {"k_steps": 9}})"));
    auto net = zero_linear();
    torch::optim::SGD sgd(
        net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
    auto model = fleet::distributed_model(net);
    auto optimizer = fleet::distributed_optimizer(sgd);
    State state{model, optimizer};
    for (int step = 0; step < 4; ++step) {
      const at::Tensor x = batch(step, world.rank());
      optimizer.zero_grad();
      optimizer.backward(loss_of(model(x), x));
      optimizer.step();
    }
    const at::Tensor own = net->weight.detach().clone();
    at::Tensor mean = own.clone();
    all_reduce(mean, ReduceOp::AVG);
    EXPECT_FALSE(own.equal(mean));
    save(folder.path(), state, 4);
    EXPECT_TRUE(torch::allclose(net->weight, mean, 1e-5, 1e-6));
    const at::Tensor saved = net->weight.detach().clone();
    {
      const torch::NoGradGuard no_grad;
      net->weight.zero_();
    }
    load(folder.path(), state);
    EXPECT_TRUE(net->weight.equal(saved));
    EXPECT_EQ(optimizer.local_sgd()->num_steps(), 4);
    // The momentum is that of the first rank, not a mixture.
    auto& states = optimizer.optimizer().state();
    for (const at::Tensor& parameter : net->parameters()) {
      const auto& its_state =
          states.at(c10::guts::to_string(parameter.unsafeGetTensorImpl()));
      const at::Tensor momentum =
          static_cast<torch::optim::SGDParamState&>(*its_state)
              .momentum_buffer();
      at::Tensor first = momentum.clone();
      broadcast(first, 0);
      EXPECT_TRUE(first.equal(momentum));
    }
  });
}

TEST(Lbfgs, ComesBack) {
  const TempDir folder;
  const auto train = [](auto& net, torch::optim::LBFGS& lbfgs, int from) {
    double last = 0;
    for (int step = from; step < from + 3; ++step) {
      last = lbfgs
                 .step([&] {
                   lbfgs.zero_grad();
                   const at::Tensor x = batch(0, 0);
                   const at::Tensor loss = loss_of(net(x), x);
                   loss.backward();
                   return loss;
                 })
                 .template item<double>();
    }
    return last;
  };
  const torch::optim::LBFGSOptions options =
      torch::optim::LBFGSOptions(0.1).max_iter(3);
  auto net = zero_linear();
  torch::optim::LBFGS lbfgs(net->parameters(), options);
  train(net, lbfgs, 0);
  State state{net, lbfgs};
  save(folder.path(), state, 1);
  const double expected = train(net, lbfgs, 3);
  auto again = zero_linear();
  torch::optim::LBFGS other(again->parameters(), options);
  State loaded{again, other};
  load(folder.path(), loaded);
  EXPECT_EQ(train(again, other, 3), expected);
  EXPECT_TRUE(again->weight.equal(net->weight));
}

// Whose state torch does not let others see.
class Unknown final : public torch::optim::Optimizer {
 public:
  explicit Unknown(const std::vector<at::Tensor>& parameters)
      : Optimizer(parameters, std::make_unique<torch::optim::SGDOptions>(0.1)) {
  }
  at::Tensor step(LossClosure) override { return {}; }
};

TEST(Optimizers, ThatAreNotKnownAreRefused) {
  const TempDir folder;
  auto net = zero_linear();
  Unknown optimizer(net->parameters());
  State state{net, optimizer};
  EXPECT_THAT(
      testing::refusal([&] { save(folder.path(), state, 1); }),
      HasSubstr("is an optimizer whose state is not known"));
}

} // namespace
} // namespace argosy::checkpoint
