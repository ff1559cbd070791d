// The GPT with experts, cut by depth, by expert, by layer, sharded and copied,
// against one process with the same routing.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "argosy/compat/hybrid_communicate_group.h"
#include "argosy/expert/expert_cut.h"
#include "argosy/fleet/fleet.h"
#include "argosy/fleet/pipeline_model.h"
#include "argosy/optim/adam.h"
#include "argosy/optim/gradients.h"
#include "argosy/testing/ranks.h"
#include "argosy/training/loss_scale.h"
#include "argosy/world/world.h"
#include "examples/06_pipeline/pipeline_gpt.h"
#include "tests/fleet/gpt_training.h"
#include "tests/fleet/small_buffers.h"

namespace argosy::fleet {
namespace {

using examples::gpt_layers;
using examples::ParallelGptOptions;
using testing::Trained;

const testing::GptTask kTask{
    .gpt = {.vocab = 13, .context = 8, .width = 16, .layers = 3, .heads = 4},
    .rows = 16,
    .steps = 4,
    .limit = 0.3};

ParallelGptOptions gpt_options(long experts, GroupPtr model, GroupPtr expert) {
  ParallelGptOptions options{kTask.gpt};
  options.group = std::move(model);
  options.experts = experts;
  options.expert_group = std::move(expert);
  options.balance = 0.05;
  return options;
}

pipeline::PipelineLayer make_layers(
    const ParallelGptOptions& gpt, const GroupPtr& stages, int chunks = 1) {
  pipeline::PipelineLayerOptions options;
  options.group = stages;
  options.chunks = chunks;
  options.loss_fns = {examples::gpt_loss(gpt)};
  pipeline::PipelineLayer layers(gpt_layers(gpt), options);
  layers->to(torch::kDouble);
  const torch::NoGradGuard no_grad;
  for (const at::Tensor& each : layers->parameters()) {
    each.mul_(0.7);
  }
  return layers;
}

// Microbatches of the size that a rank of `slices` has: gates go by those.
Trained train_alone(int slices, long experts) {
  Trained trained;
  testing::run_ranks(1, [&](World&) {
    const GroupPtr self = get_group(0);
    const ParallelGptOptions options = gpt_options(experts, self, self);
    pipeline::PipelineLayer layers = make_layers(options, self);
    torch::optim::AdamW adam(
        layers->parameters(), torch::optim::AdamWOptions(1e-2));
    for (int step = 0; step < kTask.steps; ++step) {
      adam.zero_grad();
      double sum = 0;
      const training::LossScale scale(1.0 / slices);
      for (const auto& part : pipeline::split_batch(
               {kTask.tokens(step)}, {kTask.targets(step)}, slices)) {
        const at::Tensor loss = examples::gpt_loss(options)(
                                    layers->forward(part.inputs), part.labels) /
            slices;
        loss.backward();
        sum += loss.item<double>();
      }
      optim::clip_grad_norm_(layers->parameters(), kTask.limit);
      adam.step();
      trained.losses.push_back(sum);
    }
    for (const auto& item : layers->named_parameters()) {
      trained.parameters[item.key()] = item.value().detach();
    }
  });
  return trained;
}

struct Degrees {
  int dp = 1;
  int pp = 1;
  int sharding = 1;
  int stage = 1; // of sharding
  int mp = 1;
  int ep = 1;
  int microbatches = 2;
  std::string schedule = "1F1B";
  int chunks = 1;
  long experts = 4;

  int ranks() const { return dp * pp * sharding * mp * ep; }
  int slices() const { return dp * sharding * ep * microbatches; }
};

DistributedStrategy strategy_of(const Degrees& of) {
  DistributedStrategy strategy;
  strategy.hybrid_configs.dp_degree = of.dp;
  strategy.hybrid_configs.pp_degree = of.pp;
  strategy.hybrid_configs.sharding_degree = of.sharding;
  strategy.hybrid_configs.mp_degree = of.mp;
  strategy.hybrid_configs.ep_degree = of.ep;
  strategy.pipeline_configs.accumulate_steps = of.microbatches;
  strategy.pipeline_configs.schedule_mode = of.schedule;
  strategy.sharding_configs.stage = of.stage;
  testing::use_small_buffers(strategy);
  strategy.grad_clip = true;
  strategy.grad_clip_configs.limit = kTask.limit;
  return strategy;
}

// What this rank has of one process's parameter.
at::Tensor own_experts(const at::Tensor& parameter, const at::Tensor& whole) {
  if (!marks_of(parameter).is_expert) {
    return whole;
  }
  const auto hybrid = get_hybrid_communicate_group();
  const auto own = expert::experts_of(
      whole.size(0), {hybrid->size_on("expert"), hybrid->rank_on("expert")});
  return whole.narrow(0, own.begin, own.size);
}

std::string without_copies(const std::string& name) {
  return name == "6.weight" ? "0.weight" : name; // the words of the last layer
}

void train_and_compare(const Degrees& of, const Trained& alone) {
  init(true, strategy_of(of));
  const auto hybrid = get_hybrid_communicate_group();
  const ParallelGptOptions options = gpt_options(
      of.experts,
      hybrid->get_model_parallel_group(),
      hybrid->get_expert_parallel_group());
  pipeline::PipelineLayer layers =
      make_layers(options, hybrid->get_pipe_parallel_group(), of.chunks);
  optim::AdamW adam(layers->parameters(), optim::AdamWOptions(1e-2));
  auto model = distributed_model(layers);
  auto optimizer = distributed_optimizer(adam);
  for (int step = 0; step < kTask.steps; ++step) {
    const auto part = [](const at::Tensor& whole) {
      return whole.chunk(data_num())[data_rank()];
    };
    at::Tensor loss = model.train_batch(
        {part(kTask.tokens(step))}, {part(kTask.targets(step))}, optimizer);
    all_reduce(loss, ReduceOp::AVG);
    EXPECT_NEAR(
        loss.item<double>(),
        alone.losses.at(static_cast<std::size_t>(step)),
        2e-6);
  }
  const auto whole = model.whole();
  int experts = 0;
  for (const auto& item : layers->named_parameters()) {
    const at::Tensor& expected =
        alone.parameters.at(without_copies(item.key()));
    experts += marks_of(item.value()).is_expert ? 1 : 0;
    EXPECT_TRUE(torch::allclose(
        tensor_parallel::full_parameter(item.value(), options.group),
        own_experts(item.value(), expected),
        1e-6,
        1e-8))
        << item.key();
  }
  if (of.ep > 1 && of.pp == 1) {
    EXPECT_EQ(experts, 3 * 4); // weights and biases of two products each
  }
}

std::vector<std::pair<std::string, Degrees>> combinations() {
  return {
      {"ep4", {.ep = 4}},
      {"dp2_ep2", {.dp = 2, .ep = 2}},
      // 2, 1, 1 and 1 experts; 1, 1, 1 and none.
      {"ep4_of_5", {.ep = 4, .experts = 5}},
      {"ep4_of_3", {.ep = 4, .experts = 3}},
      {"sharding2_1_ep4_of_3",
       {.sharding = 2, .stage = 1, .ep = 4, .experts = 3}},
      {"sharding2_3_ep4_of_3",
       {.sharding = 2, .stage = 3, .ep = 4, .experts = 3}},
      {"pp2_ep4_of_3", {.pp = 2, .ep = 4, .experts = 3}},
      {"pp2_ep2", {.pp = 2, .ep = 2}},
      {"pp2_ep4_zbh1", {.pp = 2, .ep = 4, .schedule = "ZBH1"}},
      {"dp2_pp2_ep2", {.dp = 2, .pp = 2, .ep = 2}},
      {"pp2_mp2_ep2", {.pp = 2, .mp = 2, .ep = 2}},
      {"pp2_sharding2_1_ep2", {.pp = 2, .sharding = 2, .stage = 1, .ep = 2}},
      {"pp2_sharding2_2_ep2", {.pp = 2, .sharding = 2, .stage = 2, .ep = 2}},
      {"pp2_sharding2_3_ep2", {.pp = 2, .sharding = 2, .stage = 3, .ep = 2}},
      {"dp2_sharding2_3_ep2", {.dp = 2, .sharding = 2, .stage = 3, .ep = 2}},
      {"pp2_vpp_mp2_ep2",
       {.pp = 2, .mp = 2, .ep = 2, .schedule = "VPP", .chunks = 3}},
      {"dp2_pp2_mp2_ep2", {.dp = 2, .pp = 2, .mp = 2, .ep = 2}},
      {"pp2_sharding2_2_mp2_ep2",
       {.pp = 2, .sharding = 2, .stage = 2, .mp = 2, .ep = 2}},
      {"pp2_sharding2_3_mp2_ep2",
       {.pp = 2, .sharding = 2, .stage = 3, .mp = 2, .ep = 2}},
      {"dp2_pp2_sharding2_1_ep2",
       {.dp = 2,
        .pp = 2,
        .sharding = 2,
        .stage = 1,
        .ep = 2,
        .microbatches = 1}},
  };
}

class ExpertHybrid : public ::testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(
    Fleet,
    ExpertHybrid,
    ::testing::Range<std::size_t>(0, combinations().size()),
    [](const auto& of) { return combinations()[of.param].first; });

TEST_P(ExpertHybrid, TrainsAsOneProcess) {
  const Degrees of = combinations()[GetParam()].second;
  const Trained alone = train_alone(of.slices(), of.experts);
  testing::run_ranks(of.ranks(), [&](World&) { train_and_compare(of, alone); });
}

} // namespace
} // namespace argosy::fleet
