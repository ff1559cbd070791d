// Mixed precision on sharded and tensor parallel models, against the same on
// data parallel ones.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "argosy/compat/hybrid_communicate_group.h"
#include "argosy/fleet/fleet.h"
#include "argosy/fleet/pipeline_model.h"
#include "argosy/optim/adam.h"
#include "argosy/optim/autocast.h"
#include "argosy/optim/grad_scaler.h"
#include "argosy/optim/gradients.h"
#include "argosy/pipeline/pipeline_layer.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"
#include "examples/05_hybrid/parallel_gpt.h"
#include "tests/fleet/small_buffers.h"
#include "tests/support/oracle_models.h"
#include "tests/support/refusal.h"

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
  const at::Tensor whole =
      ((numbers({8, 8}, seed) + 1) * 5000).to(torch::kLong).remainder(kWords);
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

enum class Precision { Cast, Pure, MainGrad };

std::string to_text(Precision precision) {
  switch (precision) {
    case Precision::Cast:
      return "_cast";
    case Precision::Pure:
      return "_pure";
    default:
      return "_main_grad";
  }
}

DistributedStrategy strategy_of(const Axis& axis, Precision precision) {
  DistributedStrategy strategy;
  strategy.amp = true;
  strategy.amp_configs.init_loss_scaling = 256;
  strategy.amp_configs.decr_every_n_nan_or_inf = 1;
  strategy.amp_configs.use_pure_bf16 = precision != Precision::Cast;
  strategy.amp_configs.use_main_grad = precision == Precision::MainGrad;
  strategy.grad_clip = true;
  strategy.hybrid_configs.sharding_degree = axis.sharding;
  strategy.hybrid_configs.mp_degree = axis.mp;
  strategy.sharding_configs.stage = axis.stage;
  testing::use_small_buffers(strategy);
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
    : public ::testing::TestWithParam<std::tuple<std::size_t, int>> {
 protected:
  Axis axis() const { return axes()[std::get<0>(GetParam())]; }
  Precision precision() const {
    return static_cast<Precision>(std::get<1>(GetParam()));
  }
};
INSTANTIATE_TEST_SUITE_P(
    Fleet,
    MixedPrecision,
    ::testing::Combine(
        ::testing::Range<std::size_t>(0, axes().size()),
        ::testing::Range(0, 3)),
    [](const auto& of) {
      return axes()[std::get<0>(of.param)].name +
          to_text(static_cast<Precision>(std::get<1>(of.param)));
    });

TEST_P(MixedPrecision, TrainsAsDataParallelDoes) {
  testing::run_ranks(kRanks, [&](World&) {
    const auto expected = losses_of(strategy_of({}, precision()));
    const auto got = losses_of(strategy_of(axis(), precision()));
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_NEAR(got[i], expected[i], 0.02) << "step " << i;
    }
    EXPECT_LT(got.back(), got.front() - 0.1);
  });
}

TEST_P(MixedPrecision, NobodyTakesAStepThatIsNotFiniteOnOneRank) {
  testing::run_ranks(kRanks, [&](World& world) {
    Training run(strategy_of(axis(), precision()));
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

// ---- Main gradients ---------------------------------------------------------

constexpr int kMerged = 4;

testing::OracleModel mlp() {
  return testing::oracle_models().front();
}

testing::Mlp make_mlp() {
  testing::Mlp net = mlp().make_with_weights().get<testing::Mlp>();
  net->to(torch::kFloat);
  return net;
}

testing::Batch batch_of(int step, int pass, const World& world) {
  auto batch = mlp().batch(2 * world.size(), kMerged * step + pass);
  batch.x = batch.x.to(torch::kFloat);
  return testing::part_of(batch, world.rank(), world.size());
}

std::vector<at::Tensor> values_of(const testing::Mlp& net) {
  std::vector<at::Tensor> values;
  for (const at::Tensor& param : net->parameters()) {
    values.push_back(param.detach().to(torch::kFloat, false, true));
  }
  return values;
}

// Adam on float32 weights, which sees the gradients of their roundings.
std::vector<at::Tensor> train_in_float(const World& world) {
  testing::Mlp net = make_mlp();
  net->to(torch::kBFloat16);
  const std::vector<at::Tensor> weights = values_of(net);
  optim::AdamW adam(weights, optim::AdamWOptions(1e-2));
  for (int step = 0; step < kSteps; ++step) {
    for (const at::Tensor& weight : weights) {
      weight.mutable_grad() = torch::zeros_like(weight);
    }
    for (int pass = 0; pass < kMerged; ++pass) {
      net->zero_grad();
      const auto batch = batch_of(step, pass, world);
      at::Tensor scores;
      {
        const optim::AutoCast cast;
        scores = net(batch.x);
      }
      testing::loss_of(scores.to(torch::kFloat), batch.target).backward();
      for (std::size_t i = 0; i < weights.size(); ++i) {
        weights[i].mutable_grad().add_(net->parameters()[i].grad(), 0.25);
      }
    }
    for (std::size_t i = 0; i < weights.size(); ++i) {
      all_reduce(weights[i].grad(), ReduceOp::AVG);
    }
    optim::clip_grad_norm_(weights, 0.1);
    adam.step();
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      net->parameters()[i].copy_(weights[i]);
    }
  }
  return values_of(net);
}

std::vector<at::Tensor> train_merged(
    const Axis& axis, Precision precision, const World& world) {
  auto strategy = strategy_of(axis, precision);
  strategy.gradient_merge = true;
  strategy.gradient_merge_configs.k_steps = kMerged;
  strategy.grad_clip_configs.limit = 0.1;
  init(true, strategy);
  testing::Mlp net = make_mlp();
  optim::AdamW adam(net->parameters(), optim::AdamWOptions(1e-2));
  auto model = distributed_model(net);
  auto optimizer = distributed_optimizer(adam);
  for (int step = 0; step < kSteps; ++step) {
    for (int pass = 0; pass < kMerged; ++pass) {
      optimizer.zero_grad();
      const auto batch = batch_of(step, pass, world);
      const bool stepped =
          optimizer.minimize(testing::loss_of(model(batch.x), batch.target));
      EXPECT_EQ(stepped, pass + 1 == kMerged);
    }
  }
  const auto whole = model.whole();
  return values_of(net);
}

// Of all weights.
double share_of_different(
    const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  double different = 0;
  double all = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    different += a[i].ne(b[i]).sum().item<double>();
    all += static_cast<double>(a[i].numel());
  }
  return different / all;
}

// Weights that are close to the middle between two bfloat16 may be rounded to
// the other one, as sums have another order.
TEST(MainGrads, TrainAsFloat32Does) {
  const std::vector<Axis> all = {
      {"dp4"}, {"", 4, 1, 1}, {"", 4, 1, 2}, {"", 4, 1, 3}, {"", 2, 1, 2}};
  for (const Axis& axis : all) {
    testing::run_ranks(kRanks, [&](World& world) {
      const auto expected = train_in_float(world);
      const auto got = train_merged(axis, Precision::MainGrad, world);
      const auto lossy = train_merged(axis, Precision::Pure, world);
      EXPECT_LT(share_of_different(got, expected), 0.02)
          << axis.sharding << " ranks, stage " << axis.stage;
      EXPECT_GT(share_of_different(lossy, expected), 0.1); // it matters
    });
  }
}

TEST(MainGrads, NeedWeightsInBfloat16) {
  testing::run_ranks(1, [](World&) {
    DistributedStrategy strategy;
    strategy.amp = true;
    strategy.amp_configs.use_main_grad = true;
    EXPECT_THAT(
        testing::refusal([&] { init(true, strategy); }),
        ::testing::HasSubstr("needs amp_configs.use_pure_bf16"));
  });
}

// ---- Lists of ops -----------------------------------------------------------

constexpr char kLists[] = R"({"amp": true, "amp_configs": {
    "custom_white_list": ["tanh"],
    "custom_black_list": ["softmax", "matmul_v2"]}})";

// Notes the types of its ops' results.
struct TypesImpl : torch::nn::Module {
  torch::nn::Linear product =
      register_module("product", torch::nn::Linear(4, 4));
  std::vector<at::ScalarType> seen;

  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = product(x);
    const at::Tensor z = y.tanh();
    const at::Tensor w = z.softmax(-1);
    seen = {y.scalar_type(), z.scalar_type(), w.scalar_type()};
    return w;
  }
};
TORCH_MODULE(Types);

const std::vector<at::ScalarType> kListed{
    torch::kFloat, torch::kBFloat16, torch::kFloat};

TEST(AmpLists, SayWhichOpsComputeInWhichType) {
  testing::run_ranks(2, [](World&) {
    for (const std::string more :
         {"{}", R"({"sharding": true, "sharding_configs": {"stage": 3}})"}) {
      auto strategy = DistributedStrategy::from_json(kLists);
      strategy.merge_json(more);
      init(true, strategy);
      Types net;
      auto model = distributed_model(net);
      const at::Tensor y = model(torch::ones({2, 4}));
      EXPECT_EQ(net->seen, kListed);
      y.sum().backward();
      net->forward(torch::ones({2, 4})); // outside of the model's forward
      EXPECT_EQ(net->seen, std::vector<at::ScalarType>(3, torch::kFloat));
    }
  });
}

TEST(AmpLists, HoldOnTheStagesOfAPipeline) {
  testing::run_ranks(2, [](World& world) {
    auto strategy = DistributedStrategy::from_json(kLists);
    strategy.hybrid_configs.pp_degree = 2;
    strategy.pipeline_configs.accumulate_steps = 2;
    init(true, strategy);
    pipeline::PipelineLayerOptions options;
    options.loss_fns = {[](const Tensors& outputs, const Tensors& labels) {
      return torch::mse_loss(outputs[0], labels[0]);
    }};
    Types first;
    Types second;
    auto model = distributed_model(pipeline::PipelineLayer(
        std::vector<pipeline::LayerDesc>{
            pipeline::existing(first), pipeline::existing(second)},
        options));
    torch::optim::SGD sgd(model.module().parameters(), 0.1);
    auto optimizer = distributed_optimizer(sgd);
    const at::Tensor x = torch::ones({4, 4});
    model.train_batch({x}, {x}, optimizer);
    EXPECT_EQ((world.rank() == 0 ? first : second)->seen, kListed);
  });
}

TEST(AmpLists, NameOpsThatExist) {
  testing::run_ranks(1, [](World&) {
    EXPECT_THAT(
        testing::refusal([] {
          init(
              true,
              DistributedStrategy::from_json(
                  R"({"amp": true, "amp_configs": {
                      "custom_white_list": ["sofmax"]}})"));
        }),
        ::testing::HasSubstr("did you mean softmax?"));
  });
}

} // namespace
} // namespace argosy::fleet
