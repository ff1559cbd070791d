// The GPT cut by depth, with its stages copied, sharded and cut over other
// axes, against one process with the whole batch.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "argosy/comm/shards.h"
#include "argosy/common/file.h"
#include "argosy/compat/hybrid_communicate_group.h"
#include "argosy/fleet/fleet.h"
#include "argosy/fleet/pipeline_model.h"
#include "argosy/observe/tensor_memory.h"
#include "argosy/optim/adam.h"
#include "argosy/pipeline/cut/cut_stage.h"
#include "argosy/pipeline/schedule_json.h"
#include "argosy/pipeline/schedules/schedules.h"
#include "argosy/testing/gtest_ranks.h"
#include "argosy/testing/ranks.h"
#include "argosy/training/parameter_marks.h"
#include "argosy/world/world.h"
#include "examples/06_pipeline/pipeline_gpt.h"
#include "tests/fleet/gpt_training.h"
#include "tests/fleet/small_buffers.h"
#include "tests/support/refusal.h"

namespace argosy::fleet {
namespace {

using examples::gpt_layers;
using examples::gpt_name;
using examples::ParallelGptOptions;
using testing::Trained;

const testing::GptTask kTask{
    .gpt = {.vocab = 13, .context = 8, .width = 16, .layers = 5, .heads = 4},
    .rows = 16};

struct Combination {
  std::string name;
  int ranks = 8;
  std::string strategy;
  bool sequence_parallel = false;
  int chunks = 1;
};

ParallelGptOptions options_on(bool sequence_parallel) {
  ParallelGptOptions options{kTask.gpt, nullptr, sequence_parallel};
  options.group = get_hybrid_communicate_group()->get_model_parallel_group();
  const int parts =
      get_hybrid_communicate_group()->get_sep_parallel_world_size();
  if (parts > 1) {
    options.segments = std::make_shared<SegmentParallel>(
        nullptr, zigzag_split(options.gpt.context, parts));
  }
  return options;
}

pipeline::PipelineLayer make_layers(
    const Combination& of, const ParallelGptOptions& gpt) {
  pipeline::PipelineLayerOptions options;
  options.chunks = of.chunks;
  options.order = of.strategy.find("ZBV") != std::string::npos
      ? pipeline::PartOrder::kV
      : pipeline::PartOrder::kRound;
  options.loss_fns = {examples::gpt_loss(gpt)};
  pipeline::PipelineLayer layers(gpt_layers(gpt), options);
  layers->to(torch::kDouble);
  const auto whole = kTask.make_gpt()->named_parameters();
  for (const auto& item : layers->named_parameters()) {
    tensor_parallel::load_parameter(
        item.value(), whole[gpt_name(item.key(), gpt.gpt.layers)], gpt.group);
  }
  return layers;
}

at::Tensor part_of(const at::Tensor& whole, const ParallelGptOptions& options) {
  const at::Tensor rows = whole.chunk(data_num())[data_rank()];
  return options.segments ? options.segments->part(rows, 1) : rows;
}

// Of this rank's stage.
Trained train(const Combination& of, const std::string& more_json = "{}") {
  auto strategy = DistributedStrategy::from_json(of.strategy);
  strategy.grad_clip = true;
  strategy.grad_clip_configs.limit = kTask.limit;
  testing::use_small_buffers(strategy);
  strategy.merge_json(more_json);
  init(true, strategy);
  const ParallelGptOptions options = options_on(of.sequence_parallel);
  pipeline::PipelineLayer layers = make_layers(of, options);
  optim::AdamW adam(layers->parameters(), optim::AdamWOptions(1e-2));
  auto model = distributed_model(layers);
  auto optimizer = distributed_optimizer(adam);
  Trained trained;
  for (int step = 0; step < kTask.steps; ++step) {
    at::Tensor loss = model.train_batch(
        {part_of(kTask.tokens(step), options)},
        {part_of(kTask.targets(step), options)},
        optimizer);
    all_reduce(loss, ReduceOp::AVG);
    trained.losses.push_back(loss.item<double>());
  }
  const auto whole = model.whole();
  for (const auto& item : layers->named_parameters()) {
    trained.parameters[item.key()] =
        tensor_parallel::full_parameter(item.value(), options.group).clone();
  }
  return trained;
}

// The model computes in double, and so all stages are told its losses.
void expect_close(const Trained& stage, const Trained& alone) {
  testing::expect_close(stage, alone, 1e-8, [](const std::string& name) {
    return gpt_name(name, kTask.gpt.layers);
  });
}

struct Degrees {
  int dp = 1;
  int pp = 2;
  int sharding = 1;
  int stage = 1; // of sharding
  int sep = 1;
  int mp = 1;
  int microbatches = 2;
  std::string schedule = "1F1B";
};

std::string json(const Degrees& of) {
  return str(
      R"({"hybrid_configs": {"dp_degree": )",
      of.dp,
      R"(, "pp_degree": )",
      of.pp,
      R"(, "sharding_degree": )",
      of.sharding,
      R"(, "sep_degree": )",
      of.sep,
      R"(, "mp_degree": )",
      of.mp,
      R"(}, "sharding_configs": {"stage": )",
      of.stage,
      R"(}, "pipeline_configs": {"accumulate_steps": )",
      of.microbatches,
      R"(, "schedule_mode": ")",
      of.schedule,
      R"("}})");
}

std::vector<Combination> combinations() {
  return {
      {"pp8", 8, json({.pp = 8, .microbatches = 4})},
      {"dp4_pp2", 8, json({.dp = 4})},
      {"dp2_pp4_zbh1",
       8,
       json({.dp = 2, .pp = 4, .microbatches = 4, .schedule = "ZBH1"})},
      {"dp2_pp2_zbv",
       4,
       json({.dp = 2, .microbatches = 4, .schedule = "ZBV"}),
       false,
       2},
      {"pp2_sharding4_1", 8, json({.sharding = 4, .stage = 1})},
      {"pp2_sharding4_2", 8, json({.sharding = 4, .stage = 2})},
      {"pp2_sharding4_3", 8, json({.sharding = 4, .stage = 3})},
      {"dp2_pp2_sharding2_1", 8, json({.dp = 2, .sharding = 2, .stage = 1})},
      {"pp2_sharding2_3_zbh1",
       4,
       json({.sharding = 2, .stage = 3, .schedule = "ZBH1"})},
      {"pp4_mp2", 8, json({.pp = 4, .mp = 2, .microbatches = 4})},
      {"dp2_pp2_mp2", 8, json({.dp = 2, .mp = 2})},
      {"pp2_mp4_tokens", 8, json({.mp = 4}), true},
      {"pp2_sharding2_1_mp2", 8, json({.sharding = 2, .stage = 1, .mp = 2})},
      {"pp2_sharding2_2_mp2", 8, json({.sharding = 2, .stage = 2, .mp = 2})},
      {"pp2_sharding2_3_mp2", 8, json({.sharding = 2, .stage = 3, .mp = 2})},
      {"pp2_sharding2_3_mp2_vpp",
       8,
       json(
           {.sharding = 2,
            .stage = 3,
            .mp = 2,
            .microbatches = 4,
            .schedule = "VPP"}),
       false,
       3},
      {"pp2_sep2_mp2", 8, json({.sep = 2, .mp = 2})},
      {"pp2_sharding2_2_sep2", 8, json({.sharding = 2, .stage = 2, .sep = 2})},
      {"dp2_pp2_sharding2_2_mp2",
       16,
       json({.dp = 2, .sharding = 2, .stage = 2, .mp = 2})},
      {"dp2_pp2_sharding2_3_mp2",
       16,
       json({.dp = 2, .sharding = 2, .stage = 3, .mp = 2})},
      {"pp4_sharding2_3_mp2_tokens",
       16,
       json({.pp = 4, .sharding = 2, .stage = 3, .mp = 2}),
       true},
      {"dp2_pp4_mp2_zbh1",
       16,
       json(
           {.dp = 2, .pp = 4, .mp = 2, .microbatches = 4, .schedule = "ZBH1"})},
  };
}

class PipelineHybrid : public ::testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(
    Fleet,
    PipelineHybrid,
    ::testing::Range<std::size_t>(0, combinations().size()),
    [](const auto& of) { return combinations()[of.param].name; });

TEST_P(PipelineHybrid, TrainsAsOneProcess) {
  static const Trained alone = train_alone(kTask);
  const Combination of = combinations()[GetParam()];
  testing::run_ranks(of.ranks, [&](World&) { expect_close(train(of), alone); });
}

struct Switch {
  std::string name;
  std::string json;
};

class PipelineSwitches : public ::testing::TestWithParam<Switch> {};
INSTANTIATE_TEST_SUITE_P(
    Fleet,
    PipelineSwitches,
    ::testing::Values(
        Switch{
            "gradient_merge",
            R"({"gradient_merge": true,
                "gradient_merge_configs": {"k_steps": 2}})"},
        Switch{"ema", R"({"ema": true})"},
        Switch{"amp", R"({"amp": true})"},
        Switch{"clip_by_value", R"({"grad_clip_configs": {"by": "value"}})"},
        Switch{"unused", R"({"find_unused_parameters": true})"},
        Switch{"delay", R"({"pipeline_configs": {"delay_scale_loss": true}})"},
        Switch{
            "sum_of_losses",
            R"({"pipeline_configs": {"loss_reduction": "sum"}})"}),
    [](const auto& of) { return of.param.name; });

// A switch does to stages what it does to a model of one stage.
TEST_P(PipelineSwitches, DoTheSameOnStages) {
  Trained whole;
  testing::run_ranks(1, [&](World&) {
    whole = train(
        {"whole", 1, json({.pp = 1, .microbatches = 4})}, GetParam().json);
  });
  Trained alone{whole.losses, {}};
  for (const auto& [name, value] : whole.parameters) {
    alone.parameters[gpt_name(name, kTask.gpt.layers)] = value;
  }
  for (const Degrees& of :
       {Degrees{.pp = 4, .microbatches = 4, .schedule = "ZBH1"},
        Degrees{.sharding = 2, .stage = 1, .microbatches = 4},
        Degrees{.sharding = 2, .stage = 3, .microbatches = 4}}) {
    testing::run_ranks(4, [&](World&) {
      expect_close(train({"stages", 4, json(of)}, GetParam().json), alone);
    });
  }
}

at::Tensor mse(const Tensors& outputs, const Tensors& labels) {
  return torch::mse_loss(outputs[0], labels[0]);
}

// Three stages, of which the second has no parameters.
Trained train_around_nothing(const std::string& strategy) {
  init(true, DistributedStrategy::from_json(strategy));
  pipeline::PipelineLayerOptions options;
  if (get_hybrid_communicate_group()->get_pipe_parallel_world_size() > 1) {
    options.segmentation = pipeline::Segmentation::at({0, 1, 2});
  }
  options.loss_fns = {mse};
  pipeline::PipelineLayer layers(
      std::vector<pipeline::LayerDesc>{
          pipeline::layer<torch::nn::Linear>(6, 5),
          pipeline::layer<torch::nn::Tanh>(),
          pipeline::layer<torch::nn::Linear>(5, 3)},
      options);
  layers->to(torch::kDouble);
  optim::AdamW adam(layers->parameters(), optim::AdamWOptions(1e-2));
  auto model = distributed_model(layers);
  auto optimizer = distributed_optimizer(adam);
  Trained trained;
  for (int step = 0; step < 3; ++step) {
    const auto part = [&](long width) {
      return testing::numbers({8, width}, step).chunk(data_num())[data_rank()];
    };
    at::Tensor loss = model.train_batch({part(6)}, {part(3)}, optimizer);
    all_reduce(loss, ReduceOp::AVG);
    trained.losses.push_back(loss.item<double>());
  }
  const auto whole = model.whole();
  for (const auto& item : layers->named_parameters()) {
    trained.parameters[item.key()] = item.value().detach().clone();
  }
  return trained;
}

TEST(PipelineSharding, AStageMayHaveNoParameters) {
  Trained alone;
  testing::run_ranks(
      1, [&](World&) { alone = train_around_nothing(json({.pp = 1})); });
  for (const int stage : {1, 2, 3}) {
    SCOPED_TRACE(stage);
    testing::run_ranks(6, [&](World&) {
      const Trained got =
          train_around_nothing(json({.pp = 3, .sharding = 2, .stage = stage}));
      ASSERT_EQ(got.losses.size(), alone.losses.size());
      for (std::size_t i = 0; i < got.losses.size(); ++i) {
        EXPECT_NEAR(got.losses[i], alone.losses[i], 1e-6);
      }
      for (const auto& [name, value] : got.parameters) {
        EXPECT_TRUE(torch::allclose(value, alone.parameters.at(name))) << name;
      }
    });
  }
}

// What the last stage has in memory when it computes a loss, between two
// microbatches: what it keeps is there at all of them, what it still sends at
// some.
TEST(PipelineSharding, KeepsPartsOfGradientsBetweenMicrobatches) {
  constexpr long kWidth = 256;
  constexpr long kBytes = 4 * kWidth * kWidth; // of a layer
  const auto between = [&](int stage) {
    std::int64_t most = 0;
    testing::run_ranks(4, [&](World& world) {
      TensorMemory memory;
      auto strategy = DistributedStrategy::from_json(
          json({.sharding = 2, .stage = stage, .microbatches = 8}));
      init(true, strategy);
      pipeline::PipelineLayerOptions options;
      std::int64_t before = 0;
      std::int64_t at_loss = std::numeric_limits<std::int64_t>::max();
      int losses = 0;
      options.loss_fns = {[&](const Tensors& outputs, const Tensors& labels) {
        if (++losses == 1) {
          before = memory.current();
        } else {
          at_loss = std::min(at_loss, memory.current() - before);
        }
        return mse(outputs, labels);
      }};
      std::vector<pipeline::LayerDesc> list;
      for (int i = 0; i < 8; ++i) {
        list.push_back(pipeline::layer<torch::nn::Linear>(
            torch::nn::LinearOptions(kWidth, kWidth).bias(false)));
      }
      pipeline::PipelineLayer layers(list, options);
      torch::optim::SGD sgd(layers->parameters(), 0.1);
      auto model = distributed_model(layers);
      auto optimizer = distributed_optimizer(sgd);
      const at::Tensor x = torch::ones({8, kWidth});
      model.train_batch({x}, {x}, optimizer);
      if (losses > 0 && world.rank() == world.size() - 1) {
        most = at_loss;
      }
    });
    return most;
  };
  // What the first backward has left: the 4 layers of the stage, or nothing
  // that was not there before.
  EXPECT_LT(between(2), kBytes);
  EXPECT_LT(between(3), kBytes);
}

// A cut of a whole model at one point.
struct Whole {
  pipeline::LayerDesc model;
  pipeline::LossFn loss;
};

// The GPT as it was written for one process.
Whole plain_gpt(const Combination& /*of*/) {
  return {
      pipeline::existing(kTask.make_gpt()),
      [](const Tensors& outputs, const Tensors& labels) {
        return testing::loss_of(outputs[0], labels[0]);
      }};
}

// The GPT as it was written for tensor parallelism.
Whole tensor_parallel_gpt(const Combination& of) {
  const ParallelGptOptions options = options_on(of.sequence_parallel);
  examples::ParallelGpt gpt(options);
  gpt->to(torch::kDouble);
  tensor_parallel::load_module(*gpt, *kTask.make_gpt(), options.group);
  return {pipeline::existing(gpt), examples::gpt_loss(options)};
}

// Those of the first batch, which no optimizer has changed yet. Sums over
// sequences that the model axis divides are the optimizer's.
void expect_gradients(const torch::nn::Module& stage) {
  Gpt whole = kTask.make_gpt();
  testing::loss_of(whole(kTask.tokens(0)), kTask.targets(0)).backward();
  const auto expected = whole->named_parameters();
  const auto group = get_hybrid_communicate_group()->get_model_parallel_group();
  for (const auto& item : stage.named_parameters()) {
    const ParameterMarks marks = marks_of(item.value());
    const at::Tensor& gradient = expected[item.key()].grad();
    EXPECT_TRUE(
        marks.sequence_parallel ||
        torch::allclose(
            item.value().grad(),
            marks.is_distributed
                ? comm::own_shard(gradient, marks.split_axis, *group)
                : gradient,
            1e-9,
            1e-12))
        << item.key();
  }
}

void train_cut(
    const Combination& of,
    const std::function<Whole(const Combination&)>& make,
    const Trained& alone) {
  auto strategy = DistributedStrategy::from_json(of.strategy);
  strategy.grad_clip = true;
  strategy.grad_clip_configs.limit = kTask.limit;
  init(true, strategy);
  const long rows = kTask.rows / data_num() /
      strategy.pipeline_configs.accumulate_steps.get();
  const Whole whole_model = make(of);
  auto stage = std::make_shared<pipeline::CutStage>(
      whole_model.model,
      Tensors{kTask.tokens(0).narrow(0, 0, rows)},
      pipeline::CutOptions{
          .chunks = of.chunks,
          .split_spec = of.chunks == 1
              ? SplitSpec{{"blocks.2", SplitPoint::BEGINNING}}
              : SplitSpec{}});
  optim::AdamW adam(stage->module().parameters(), optim::AdamWOptions(1e-2));
  auto model = distributed_model(stage, {whole_model.loss});
  auto optimizer = distributed_optimizer(adam);
  const auto part = [](const at::Tensor& whole) {
    return whole.chunk(data_num())[data_rank()];
  };
  if (get_hybrid_communicate_group()->get_sharding_parallel_world_size() == 1) {
    model.forward_backward(
        {part(kTask.tokens(0))}, {part(kTask.targets(0))}, optimizer);
    expect_gradients(stage->module());
    optimizer.zero_grad();
  }
  Trained trained;
  for (int step = 0; step < kTask.steps; ++step) {
    at::Tensor loss = model.train_batch(
        {part(kTask.tokens(step))}, {part(kTask.targets(step))}, optimizer);
    all_reduce(loss, ReduceOp::AVG);
    trained.losses.push_back(loss.item<double>());
  }
  const auto whole = model.whole();
  for (const auto& item : stage->module().named_parameters()) {
    trained.parameters[item.key()] =
        tensor_parallel::full_parameter(
            item.value(),
            get_hybrid_communicate_group()->get_model_parallel_group())
            .clone();
  }
  EXPECT_GT(trained.parameters.size(), 12); // some blocks
  testing::expect_close(trained, alone, 1e-6);
}

TEST(PipelineOfUnchangedModule, TrainsAsOneProcess) {
  const Trained alone = train_alone(kTask);
  for (const Combination& of :
       {Combination{"dp2_pp2", 4, json({.dp = 2})},
        Combination{
            "pp2_sharding2_2_zbh1",
            4,
            json({.sharding = 2, .stage = 2, .schedule = "ZBH1"})},
        Combination{"pp2_sharding2_3", 4, json({.sharding = 2, .stage = 3})}}) {
    SCOPED_TRACE(of.name);
    testing::run_ranks(
        of.ranks, [&](World&) { train_cut(of, plain_gpt, alone); });
  }
}

// Each rank records and runs its own program, whose ops communicate over the
// model axis.
TEST(PipelineOfUnchangedModule, TrainsWithTensorParallelLayers) {
  const Trained alone = train_alone(kTask);
  for (const Combination& of :
       {Combination{"dp2_pp2_mp2", 8, json({.dp = 2, .mp = 2})},
        Combination{
            "pp2_mp2_tokens_zbh1",
            4,
            json({.mp = 2, .schedule = "ZBH1"}),
            true},
        Combination{
            "pp2_mp2_vpp_evenly",
            4,
            json({.mp = 2, .microbatches = 4, .schedule = "VPP"}),
            false,
            2},
        Combination{
            "pp2_sharding2_2_mp2",
            8,
            json({.sharding = 2, .stage = 2, .mp = 2})},
        Combination{
            "pp2_sharding2_3_mp2",
            8,
            json({.sharding = 2, .stage = 3, .mp = 2})}}) {
    SCOPED_TRACE(of.name);
    testing::run_ranks(
        of.ranks, [&](World&) { train_cut(of, tensor_parallel_gpt, alone); });
  }
}

// Each stage has other layers, so a name must be on one of them.
TEST(PipelineConfigs, ExcludedLayersMayBeOnAnyStage) {
  const Trained alone = train_alone(kTask);
  testing::run_ranks(4, [&](World&) {
    const Combination of{"", 4, json({.sharding = 2, .stage = 3})};
    const auto excluded = [](const std::string& names) {
      return R"({"sharding_configs": {"exclude_layer": [)" + names + "]}}";
    };
    expect_close(train(of, excluded(R"("0", "6")")), alone);
    EXPECT_THAT(
        testing::refusal([&] { train(of, excluded(R"("0", "sixth")")); }),
        ::testing::HasSubstr("no stage has a parameter in a module \"sixth\""));
  });
}

TEST(PipelineConfigs, RefuseWhatDoesNotFit) {
  testing::run_ranks(2, [](World&) {
    const auto refused = [](const std::string& more, const auto& action) {
      return testing::refusal([&] {
        auto strategy = DistributedStrategy::from_json(json({}));
        strategy.merge_json(more);
        init(true, strategy);
        action();
      });
    };
    const auto nothing = [] {};
    EXPECT_THAT(
        refused(R"({"pipeline_configs": {"schedule_mode": "2F2B"}})", nothing),
        ::testing::HasSubstr("2F2B"));
    EXPECT_THAT(
        refused("{}", [] { distributed_model(kTask.make_gpt()); }),
        ::testing::HasSubstr("expected a PipelineLayer"));
    EXPECT_THAT(
        refused(
            R"({"pipeline_configs": {"micro_batch_size": 3}})",
            [] {
              auto layers = make_layers({}, options_on(false));
              optim::AdamW adam(layers->parameters(), optim::AdamWOptions());
              auto model = distributed_model(layers);
              auto optimizer = distributed_optimizer(adam);
              model.train_batch(
                  {kTask.tokens(1)}, {kTask.targets(1)}, optimizer);
            }),
        ::testing::HasSubstr(
            "a batch of 16, expected pipeline_configs.micro_batch_size 3 x "
            "accumulate_steps 2"));
    EXPECT_THAT(
        refused(
            R"({"pipeline_configs": {"schedule_file": "/nowhere.json"}})",
            [] { distributed_model(make_layers({}, options_on(false))); }),
        ::testing::HasSubstr("/nowhere.json: there is no such file"));
  });
}

// A schedule of one's own, from a file.
TEST(PipelineConfigs, TakeSchedulesFromFiles) {
  const TempDir folder;
  const auto path = folder.path() / "schedule.json";
  pipeline::Schedule schedule = pipeline::make_schedule("zbh1", 2, 2);
  schedule.name = "mine";
  write_file(path, pipeline::to_json(schedule));
  const Trained alone = train_alone(kTask);
  testing::run_ranks(2, [&](World&) {
    auto strategy = DistributedStrategy::from_json(json({}));
    strategy.pipeline_configs.schedule_file = path.string();
    expect_close(train({"file", 2, strategy.to_json()}), alone);
  });
}

TEST(PipelineProcesses, TrainAsOneProcess) {
  testing::run_process_ranks(4, [](World&) {
    const Trained alone = train_alone(kTask);
    for (const Combination& of :
         {Combination{"dp2_pp2", 4, json({.dp = 2})},
          Combination{"pp2_sharding2_3", 4, json({.sharding = 2, .stage = 3})},
          Combination{"pp2_mp2", 4, json({.mp = 2, .schedule = "ZBH1"})}}) {
      SCOPED_TRACE(of.name);
      expect_close(train(of), alone);
    }
  });
}

} // namespace
} // namespace argosy::fleet
