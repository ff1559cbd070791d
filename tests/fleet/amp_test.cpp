// Mixed precision on sharded and tensor parallel models, against the same on
// data parallel ones.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "argosy/fleet/fleet.h"
#include "argosy/optim/adam.h"
#include "argosy/optim/grad_scaler.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"
#include "examples/05_hybrid/parallel_gpt.h"
#include "tests/parallel/oracle_models.h"

namespace argosy::fleet {
namespace {

using examples::ParallelGpt;
using testing::numbers;

constexpr int kRanks = 4;
constexpr int kSteps = 6;
constexpr long kWords = 16;

GptOptions gpt_options() {
  return {.vocab = kWords, .context = 8, .width = 16, .layers = 2, .heads = 4};
}

Gpt make_gpt() {
  const torch::NoGradGuard no_grad;
  Gpt gpt(gpt_options());
  long seed = 0;
  for (const auto& item : gpt->named_parameters()) {
    const double middle = item.key().find("norm") != std::string::npos;
    item.value().copy_(numbers(item.value().sizes(), ++seed) / 3 + middle);
  }
  return gpt;
}

// This rank's rows of a batch.
at::Tensor tokens_of(long seed) {
  const at::Tensor whole = ((numbers({8, 8}, seed) + 1) * 5000)
                               .to(torch::kLong)
                               .remainder(kWords);
  return whole.chunk(data_num())[data_rank()];
}

struct Axis {
  std::string name;
  int sharding = 1;
  int mp = 1;
  int stage = 1;
};

std::vector<Axis> axes() {
  return {
      {"sharding4_1", 4, 1, 1},
      {"sharding4_2", 4, 1, 2},
      {"sharding4_3", 4, 1, 3},
      {"mp2", 1, 2, 1},
      {"sharding2_1_mp2", 2, 2, 1},
      {"sharding2_2_mp2", 2, 2, 2},
      {"sharding2_3_mp2", 2, 2, 3}};
}

DistributedStrategy strategy_of(const Axis& axis, bool pure) {
  DistributedStrategy strategy;
  strategy.amp = true;
  strategy.amp_configs.init_loss_scaling = 256;
  strategy.amp_configs.decr_every_n_nan_or_inf = 1;
  strategy.amp_configs.use_pure_bf16 = pure;
  strategy.grad_clip = true;
  strategy.hybrid_configs.sharding_degree = axis.sharding;
  strategy.hybrid_configs.mp_degree = axis.mp;
  strategy.sharding_configs.stage = axis.stage;
  strategy.sharding_configs.comm_buffer_size_MB = 0.005;
  strategy.sharding_configs.segment_size_KB = 1;
  return strategy;
}

GroupPtr group_of_layers() {
  return get_hybrid_communicate_group()->get_model_parallel_group();
}

ParallelGpt load_gpt() {
  const GroupPtr group = group_of_layers();
  ParallelGpt gpt(examples::ParallelGptOptions{gpt_options(), group, false});
  tensor_parallel::load_module(*gpt, *make_gpt(), group);
  return gpt;
}

// A training run on one rank of the world.
class Training {
 public:
  explicit Training(const DistributedStrategy& strategy)
      : started_((init(true, strategy), true)) {}

  // Whether the step was taken; the loss counts `factor` times.
  bool step(int number, float factor = 1) {
    optimizer_.zero_grad();
    const at::Tensor loss = tensor_parallel::cross_entropy(
                                model_(tokens_of(number)),
                                tokens_of(number + 40),
                                group_of_layers(),
                                {.num_classes = kWords})
                                .mean();
    loss_ = loss.detach().clone();
    return optimizer_.minimize(loss * factor);
  }

  // Of the last step, over all ranks.
  double loss() const {
    at::Tensor mean = loss_.clone();
    all_reduce(mean, ReduceOp::AVG);
    return mean.item<double>();
  }

  std::vector<at::Tensor> values() {
    const auto whole = model_.whole();
    std::vector<at::Tensor> result;
    for (const at::Tensor& param : gpt_->parameters()) {
      result.push_back(param.detach().clone());
    }
    return result;
  }

  double scale() { return optimizer_.scaler()->state().scale; }

 private:
  const bool started_;
  ParallelGpt gpt_ = load_gpt();
  optim::AdamW adam_{gpt_->parameters(), optim::AdamWOptions(1e-2)};
  DistributedModel<ParallelGpt> model_ = distributed_model(gpt_);
  DistributedOptimizer optimizer_ = distributed_optimizer(adam_);
  at::Tensor loss_;
};

std::vector<double> losses_of(const DistributedStrategy& strategy) {
  std::vector<double> losses;
  Training run(strategy);
  for (int step = 0; step < kSteps; ++step) {
    EXPECT_TRUE(run.step(step));
    losses.push_back(run.loss());
  }
  return losses;
}

class MixedPrecision
    : public ::testing::TestWithParam<std::tuple<std::size_t, bool>> {
 protected:
  Axis axis() const { return axes()[std::get<0>(GetParam())]; }
  bool pure() const { return std::get<1>(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(
    Fleet,
    MixedPrecision,
    ::testing::Combine(
        ::testing::Range<std::size_t>(0, axes().size()), ::testing::Bool()),
    [](const auto& of) {
      return axes()[std::get<0>(of.param)].name +
          (std::get<1>(of.param) ? "_pure" : "_cast");
    });

TEST_P(MixedPrecision, TrainsAsDataParallelDoes) {
  testing::run_ranks(kRanks, [&](World&) {
    const auto expected = losses_of(strategy_of({}, pure()));
    const auto got = losses_of(strategy_of(axis(), pure()));
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_NEAR(got[i], expected[i], 0.02) << "step " << i;
    }
    EXPECT_LT(got.back(), got.front() - 0.1);
  });
}

TEST_P(MixedPrecision, NobodyTakesAStepThatIsNotFiniteOnOneRank) {
  testing::run_ranks(kRanks, [&](World& world) {
    Training run(strategy_of(axis(), pure()));
    EXPECT_TRUE(run.step(0));
    const auto before = run.values();
    const bool is_last = world.rank() == kRanks - 1;
    EXPECT_FALSE(
        run.step(1, is_last ? std::numeric_limits<float>::infinity() : 1));
    EXPECT_LT(run.scale(), 256);
    const auto after = run.values();
    for (std::size_t i = 0; i < before.size(); ++i) {
      EXPECT_TRUE(after[i].equal(before[i])) << "parameter " << i;
    }
    EXPECT_TRUE(run.step(2));
    EXPECT_FALSE(run.values()[0].equal(before[0]));
  });
}

} // namespace
} // namespace argosy::fleet
