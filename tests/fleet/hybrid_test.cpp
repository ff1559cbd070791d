// The GPT on combinations of data, sharding, sequence and tensor parallel axes,
// against one process with the whole batch.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "argosy/common/file.h"
#include "argosy/compat/hybrid_communicate_group.h"
#include "argosy/data/sampler.h"
#include "argosy/dtensor/deferred_init.h"
#include "argosy/dtensor/dtensor.h"
#include "argosy/fleet/fleet.h"
#include "argosy/optim/adam.h"
#include "argosy/optim/gradients.h"
#include "argosy/optim/sgd.h"
#include "argosy/tensor_parallel/layers.h"
#include "argosy/testing/gtest_ranks.h"
#include "argosy/testing/ranks.h"
#include "argosy/torch_hooks/thread_generator.h"
#include "argosy/world/world.h"
#include "examples/05_hybrid/parallel_gpt.h"
#include "tests/fleet/gpt_training.h"
#include "tests/fleet/small_buffers.h"
#include "tests/support/refusal.h"

namespace argosy::fleet {
namespace {

using examples::ParallelGpt;
using examples::ParallelGptOptions;
using testing::Trained;

// 13 words divide by nothing, 8 heads and 16 tokens by all.
const testing::GptTask kTask{
    .gpt = {.vocab = 13, .context = 16, .width = 16, .layers = 2, .heads = 8},
    .rows = 8,
    .steps = 10};
// This rank's part of a batch and of its sequences.
at::Tensor part_of(const at::Tensor& whole, const ParallelGptOptions& options) {
  const at::Tensor rows = whole.chunk(data_num())[data_rank()];
  return options.segments ? options.segments->part(rows, 1) : rows;
}

// Layers and sequences find the groups of their axes.
ParallelGptOptions options_on(
    bool sequence_parallel, const std::vector<std::int64_t>& grid) {
  ParallelGptOptions options{kTask.gpt, nullptr, sequence_parallel};
  options.grid = grid;
  const int parts =
      get_hybrid_communicate_group()->get_sep_parallel_world_size();
  if (parts > 1) {
    options.segments = std::make_shared<SegmentParallel>(
        nullptr, zigzag_split(options.gpt.context, parts));
  }
  return options;
}

// The kind that the strategy's switches take.
std::unique_ptr<torch::optim::Optimizer> optimizer_for(
    const DistributedStrategy& strategy, const Tensors& parameters) {
  if (strategy.lars || strategy.localsgd || strategy.adaptive_localsgd) {
    return std::make_unique<optim::SGD>(
        parameters,
        optim::SGDOptions(strategy.lars ? 1.0 : 0.05).momentum(0.9));
  }
  return std::make_unique<optim::AdamW>(parameters, optim::AdamWOptions(1e-2));
}

Trained train(
    const std::string& strategy_json,
    bool sequence_parallel,
    const std::string& more_json = "{}",
    const std::vector<std::int64_t>& grid = {}) {
  auto strategy = DistributedStrategy::from_json(strategy_json);
  strategy.grad_clip = true;
  strategy.grad_clip_configs.limit = kTask.limit;
  testing::use_small_buffers(strategy);
  strategy.merge_json(more_json);
  init(true, strategy);
  const ParallelGptOptions options = options_on(sequence_parallel, grid);
  ParallelGpt gpt(options);
  gpt->to(torch::kDouble);
  tensor_parallel::load_module(*gpt, *kTask.make_gpt(), options.group);
  const auto inner = optimizer_for(strategy, gpt->parameters());
  auto model = distributed_model(gpt);
  auto optimizer = distributed_optimizer(*inner);
  Trained trained;
  for (int step = 0; step < kTask.steps; ++step) {
    optimizer.zero_grad();
    const at::Tensor target = part_of(kTask.targets(step), options);
    const at::Tensor loss = tensor_parallel::cross_entropy(
                                model(part_of(kTask.tokens(step), options)),
                                target,
                                options.group,
                                {.num_classes = 13})
                                .mean();
    optimizer.backward(loss);
    optimizer.step();
    at::Tensor mean = loss.detach().clone();
    all_reduce(mean, ReduceOp::AVG);
    trained.losses.push_back(mean.item<double>());
  }
  const auto whole = model.whole();
  for (const auto& item : gpt->named_parameters()) {
    trained.parameters[item.key()] =
        tensor_parallel::full_parameter(item.value(), options.group).clone();
  }
  return trained;
}

void expect_close(const Trained& got, const Trained& expected) {
  EXPECT_EQ(got.parameters.size(), expected.parameters.size());
  testing::expect_close(got, expected, 1e-8);
}

void expect_equal(const Trained& a, const Trained& b) {
  EXPECT_EQ(a.losses, b.losses);
  for (const auto& [name, value] : a.parameters) {
    EXPECT_TRUE(value.equal(b.parameters.at(name))) << name;
  }
}

struct Combination {
  std::string name;
  std::string strategy;
  bool sequence_parallel = false;
  std::vector<std::int64_t> grid{}; // of the model axis
};

std::string hybrid(int dp, int sharding, int sep, int mp, int stage) {
  return str(
      R"({"hybrid_configs": {"dp_degree": )",
      dp,
      R"(, "sharding_degree": )",
      sharding,
      R"(, "sep_degree": )",
      sep,
      R"(, "mp_degree": )",
      mp,
      R"(}, "sharding_configs": {"stage": )",
      stage,
      "}}");
}

std::vector<Combination> combinations() {
  return {
      {"dp8", hybrid(8, 1, 1, 1, 1)},
      {"sharding8_1", hybrid(1, 8, 1, 1, 1)},
      {"sharding8_2", hybrid(1, 8, 1, 1, 2)},
      {"sharding8_3", hybrid(1, 8, 1, 1, 3)},
      {"switch", R"({"sharding": true, "sharding_configs": {"stage": 3}})"},
      {"dp4_sharding2_3", hybrid(4, 2, 1, 1, 3)},
      {"mp8", hybrid(1, 1, 1, 8, 1)},
      {"dp2_mp4", hybrid(2, 1, 1, 4, 1)},
      {"dp2_sharding2_1_mp2", hybrid(2, 2, 1, 2, 1)},
      {"dp2_sharding2_2_mp2", hybrid(2, 2, 1, 2, 2)},
      {"dp2_sharding2_3_mp2", hybrid(2, 2, 1, 2, 3)},
      {"sep8", hybrid(1, 1, 8, 1, 1)},
      {"dp2_sep4", hybrid(2, 1, 4, 1, 1)},
      {"sharding2_2_sep4", hybrid(1, 2, 4, 1, 2)},
      {"dp2_sep2_mp2", hybrid(2, 1, 2, 2, 1)},
      {"sharding2_3_sep2_mp2", hybrid(1, 2, 2, 2, 3)},
      {"dp2_mp4_tokens", hybrid(2, 1, 1, 4, 1), true},
      {"sharding2_3_mp4_tokens", hybrid(1, 2, 1, 4, 3), true},
      {"mp8_grid", hybrid(1, 1, 1, 8, 1), false, {2, 2, 2}},
      {"dp2_mp4_grid", hybrid(2, 1, 1, 4, 1), false, {2, 2}},
      {"sharding2_3_mp4_grid", hybrid(1, 2, 1, 4, 3), false, {2, 1, 2}},
      {"sharding2_1_sep2_mp2_tokens", hybrid(1, 2, 2, 2, 1), true},
      {"order",
       R"({"hybrid_configs": {"dp_degree": 2, "mp_degree": 2,
           "sharding_degree": 2, "order": ["mp", "sharding", "dp"]}})"}};
}

class Hybrid : public ::testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(
    Fleet,
    Hybrid,
    ::testing::Range<std::size_t>(0, combinations().size()),
    [](const auto& of) { return combinations()[of.param].name; });

TEST_P(Hybrid, TrainsAsOneProcess) {
  static const Trained alone = train_alone(kTask);
  const Combination of = combinations()[GetParam()];
  std::vector<Trained> runs;
  for (int run = 0; run < 2; ++run) {
    testing::run_ranks(8, [&](World& world) {
      const Trained trained =
          train(of.strategy, of.sequence_parallel, "{}", of.grid);
      expect_close(trained, alone);
      if (world.rank() == 0) {
        runs.push_back(trained);
      }
    });
  }
  expect_equal(runs.at(0), runs.at(1));
}

struct Switch {
  std::string name;
  std::string json;
};

class HybridSwitches : public ::testing::TestWithParam<Switch> {};
INSTANTIATE_TEST_SUITE_P(
    Fleet,
    HybridSwitches,
    ::testing::Values(
        Switch{
            "gradient_merge",
            R"({"gradient_merge": true,
                "gradient_merge_configs": {"k_steps": 2}})"},
        Switch{"ema", R"({"ema": true})"},
        Switch{"clip_by_value", R"({"grad_clip_configs": {"by": "value"}})"},
        Switch{"sync_param", R"({"hybrid_configs": {"sync_param": true}})"},
        Switch{"unused", R"({"find_unused_parameters": true})"},
        Switch{"lamb", R"({"lamb": true})"},
        Switch{
            "lars",
            R"({"lars": true,
                "lars_configs": {"exclude_from_weight_decay": ["bias"]}})"},
        Switch{
            "recompute",
            R"({"recompute": true, "recompute_configs": {
                "checkpoints": ["blocks.[0-9]+"], "enable_offload": true}})"},
        Switch{
            "sum", R"({"gradient_scale_configs": {"scale_strategy": "sum"}})"}),
    [](const auto& of) { return of.param.name; });

// Whatever the axes, a switch does what it does with data parallel ranks alone.
TEST_P(HybridSwitches, DoTheSameOnAllAxes) {
  std::vector<std::string> ways{hybrid(2, 1, 1, 2, 1), hybrid(2, 1, 2, 1, 1)};
  for (const int stage : {1, 2, 3}) {
    ways.push_back(hybrid(1, 4, 1, 1, stage));
    ways.push_back(hybrid(1, 2, 1, 2, stage));
  }
  testing::run_ranks(4, [&](World&) {
    // The sum is over the ranks with their own data, so as many of them.
    for (const std::string& way : ways) {
      SCOPED_TRACE(way);
      const Trained trained = train(way, false, GetParam().json);
      const int ranks = current_fleet("test")->axes().data->nranks();
      if (GetParam().name == "sum") {
        const Trained same =
            train(hybrid(ranks, 1, 1, 4 / ranks, 1), false, GetParam().json);
        expect_close(trained, same);
      } else {
        expect_close(
            trained, train(hybrid(4, 1, 1, 1, 1), false, GetParam().json));
      }
    }
  });
}

// Each copy of a sharded model steps as one rank with the data of its ranks.
TEST(HybridLocalSgd, AveragesTheCopiesOfAShardedModel) {
  for (const char* json :
       {R"({"localsgd": true, "localsgd_configs": {"k_steps": 4}})",
        R"({"adaptive_localsgd": true,
            "adaptive_localsgd_configs": {"init_k_steps": 3}})"}) {
    SCOPED_TRACE(json);
    std::vector<Trained> copies(2);
    testing::run_ranks(2, [&](World& world) {
      copies[static_cast<std::size_t>(world.rank())] =
          train(hybrid(2, 1, 1, 1, 1), false, json);
    });
    for (const int stage : {1, 2, 3}) {
      testing::run_ranks(4, [&](World& world) {
        expect_close(
            train(hybrid(2, 2, 1, 1, stage), false, json),
            copies[static_cast<std::size_t>(world.rank() / 2)]);
      });
    }
  }
  testing::run_ranks(2, [&](World&) {
    EXPECT_THAT(
        testing::refusal([] {
          train(hybrid(1, 2, 1, 1, 1), false, R"({"localsgd": true})");
        }),
        ::testing::HasSubstr("sharding_degree and dp_degree above 1"));
  });
}

// The parameters of the GPT as distributed_model() leaves them.
Trained start(const std::string& json, bool is_deferred) {
  const auto strategy = DistributedStrategy::from_json(json);
  init(true, strategy);
  // Each rank draws from a generator of its own, as processes do.
  const torch_hooks::GeneratorScope scope(
      at::make_generator<at::CPUGeneratorImpl>(3));
  const ParallelGptOptions options = options_on(false, {});
  ParallelGpt gpt{nullptr};
  {
    std::optional<DeferredInit> deferred;
    if (is_deferred) {
      deferred.emplace();
    }
    gpt = ParallelGpt(options);
  }
  auto model = distributed_model(gpt);
  const auto whole = model.whole();
  Trained started;
  for (const auto& item : gpt->named_parameters()) {
    started.parameters[item.key()] =
        tensor_parallel::full_parameter(item.value(), options.group).clone();
  }
  return started;
}

TEST(HybridDeferred, StartsAsAModelThatIsBuiltWithMemory) {
  std::vector<std::string> ways{hybrid(4, 1, 1, 1, 1)};
  for (const int stage : {1, 2, 3}) {
    ways.push_back(hybrid(1, 4, 1, 1, stage));
    ways.push_back(hybrid(1, 2, 1, 2, stage));
  }
  ways.emplace_back(
      R"({"sharding": true, "sharding_configs": {"stage": 3},
          "amp": true, "amp_configs": {"use_pure_bf16": true}})");
  testing::run_ranks(4, [&](World&) {
    for (const std::string& way : ways) {
      SCOPED_TRACE(way);
      expect_equal(start(way, true), start(way, false));
    }
  });
}

// Rounded as the gradients of data parallel ranks are.
TEST(HybridCompression, GoesWithSharding) {
  for (const char* json :
       {R"({"bf16_allreduce": true})", R"({"fp16_allreduce": true})"}) {
    testing::run_ranks(2, [&](World&) {
      const Trained copies = train(hybrid(2, 1, 1, 1, 1), false, json);
      for (const int stage : {1, 2, 3}) {
        expect_close(train(hybrid(1, 2, 1, 1, stage), false, json), copies);
      }
    });
  }
}

TEST(HybridProcesses, TrainAsOneProcess) {
  testing::run_process_ranks(4, [](World&) {
    const std::vector<Combination> all = {
        {"dp4", hybrid(4, 1, 1, 1, 1)},
        {"sharding4_1", hybrid(1, 4, 1, 1, 1)},
        {"sharding4_2", hybrid(1, 4, 1, 1, 2)},
        {"sharding4_3", hybrid(1, 4, 1, 1, 3)},
        {"dp2_sharding2_3", hybrid(2, 2, 1, 1, 3)},
        {"mp4", hybrid(1, 1, 1, 4, 1)},
        {"dp2_mp2", hybrid(2, 1, 1, 2, 1)},
        {"sharding2_1_mp2", hybrid(1, 2, 1, 2, 1)},
        {"sharding2_2_mp2_tokens", hybrid(1, 2, 1, 2, 2), true},
        {"sharding2_3_mp2", hybrid(1, 2, 1, 2, 3)},
        {"sep4", hybrid(1, 1, 4, 1, 1)},
        {"sharding2_2_sep2", hybrid(1, 2, 2, 1, 2)},
        {"sep2_mp2_tokens", hybrid(1, 1, 2, 2, 1), true}};
    const Trained alone = train_alone(kTask);
    for (const Combination& of : all) {
      SCOPED_TRACE(of.name);
      expect_close(train(of.strategy, of.sequence_parallel), alone);
    }
  });
}

// An unchanged module whose weights are DTensors, and beside it a plain
// parameter that all ranks hold.
struct MixedImpl : torch::nn::Module {
  torch::nn::Linear up = register_module("up", torch::nn::Linear(6, 8));
  torch::nn::Linear down = register_module("down", torch::nn::Linear(8, 6));
  at::Tensor plain = register_parameter("plain", torch::ones({5}));

  MixedImpl() { testing::set_weights(*this); } // of float64

  at::Tensor forward(const at::Tensor& x) { return down(up(x).tanh()); }
};
TORCH_MODULE(Mixed);

using ToInput = std::function<at::Tensor(const at::Tensor& whole)>;

template <typename Optimizer>
std::vector<at::Tensor> train_mixed(
    Mixed& net,
    Optimizer& optimizer,
    const ToInput& to_input,
    const std::function<void()>& clip) {
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    const at::Tensor x = testing::numbers({4, 6}, step);
    net(to_input(x)).pow(2).sum().backward();
    net->plain.pow(2).sum().backward();
    clip();
    optimizer.step();
  }
  std::vector<at::Tensor> whole;
  for (const at::Tensor& each : net->parameters()) {
    whole.push_back(full_tensor(each.detach()).clone());
  }
  return whole;
}

std::vector<at::Tensor> train_mixed_alone() {
  Mixed net;
  optim::SGD sgd(net->parameters(), optim::SGDOptions(0.1));
  return train_mixed(
      net,
      sgd,
      [](const at::Tensor& x) { return x; },
      [&] { optim::clip_grad_norm_(net->parameters(), 0.5); });
}

class HybridDTensors : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(
    Fleet,
    HybridDTensors,
    ::testing::Values(
        hybrid(2, 1, 1, 2, 1),
        hybrid(1, 1, 1, 4, 1),
        hybrid(4, 1, 1, 1, 1),
        // Leaves DTensors alone, which agree by themselves.
        R"({"hybrid_configs": {"mp_degree": 2, "sync_param": true}})"));

// Each element counts once, whether it is sharded, replicated, or plain.
TEST_P(HybridDTensors, AreClippedAsInOneProcess) {
  const auto alone = train_mixed_alone();
  testing::run_ranks(4, [&](World&) {
    auto strategy = DistributedStrategy::from_json(GetParam());
    strategy.grad_clip = true;
    strategy.grad_clip_configs.limit = 0.5;
    const auto fleet = init(true, strategy);
    const int mp = fleet->axes().model->nranks();
    const ProcessMesh mesh = ProcessMesh::of_shape({4 / mp, mp}, {"dp", "mp"});
    Mixed net;
    shard_tensor_(net->up->weight, mesh, {Replicate(), Shard(0)});
    shard_tensor_(net->up->bias, mesh, {Replicate(), Shard(0)});
    shard_tensor_(net->down->weight, mesh, {Shard(0), Shard(1)});
    shard_tensor_(net->down->bias, mesh, {Replicate(), Replicate()});
    optim::SGD sgd(net->parameters(), optim::SGDOptions(0.1));
    auto optimizer = distributed_optimizer(sgd);
    const auto trained = train_mixed(
        net,
        optimizer,
        [&](const at::Tensor& x) {
          return shard_tensor(x, mesh, {Shard(0), Replicate()});
        },
        [] {});
    for (std::size_t i = 0; i < alone.size(); ++i) {
      EXPECT_TRUE(torch::allclose(trained.at(i), alone[i], 1e-9, 1e-9)) << i;
    }
  });
}

TEST(HybridConfigs, RefuseWhatCannotBeCombined) {
  const auto refused = [](const std::string& json, const char* why) {
    EXPECT_THAT(
        testing::refusal(
            [&] { init(true, DistributedStrategy::from_json(json)); }),
        ::testing::HasSubstr(why));
  };
  testing::run_ranks(1, [&](World&) {
    refused(
        R"({"sharding": true, "sharding_configs": {"stage": 2}, "dgc": true})",
        "dgc and sharding_configs.stage 2 exclude each other");
    refused(
        R"({"hybrid_configs": {"sharding_degree": 2},
            "sharding_configs": {"stage": 3}, "power_sgd": true})",
        "power_sgd and sharding_configs.stage 3 exclude each other");
  });
}

// What was made before init() with all ranks cannot follow the degrees.
TEST(HybridConfigs, MustComeBeforeLayersAndSamplers) {
  const auto refused = [](const auto& make) {
    std::string message;
    testing::run_ranks(4, [&](World& world) {
      make();
      const auto found = testing::refusal([] {
        init(true, DistributedStrategy::from_json(hybrid(2, 1, 1, 2, 1)));
      });
      if (world.rank() == 0) {
        message = found;
      }
    });
    return message;
  };
  EXPECT_THAT(
      refused([] {
        ColumnParallelLinear layer(ColumnParallelLinearOptions(4, 4));
      }),
      ::testing::HasSubstr(
          "of the model axis was used before fleet::init() without a group and "
          "took all 4 ranks, but with these degrees the axis has 2"));
  EXPECT_THAT(
      refused([] { data::DistributedBatchSampler sampler(8, {}); }),
      ::testing::HasSubstr("make samplers after fleet::init()"));
  EXPECT_EQ(
      refused([] {
        ColumnParallelLinear layer(
            ColumnParallelLinearOptions(4, 4).group(get_group(0)));
      }),
      "");
}

TEST(HybridConfigs, NameTheFileThatTheyCameFrom) {
  const TempDir dir;
  const std::string path = dir.path() / "s.json";
  write_file(path, hybrid(2, 1, 1, 2, 1));
  testing::run_ranks(2, [&](World&) {
    EXPECT_THAT(
        testing::refusal([&] { init(true, DistributedStrategy::load(path)); }),
        ::testing::StartsWith(
            "[fleet.strategy] " + path + ": [mesh.topology] "));
  });
}

TEST(HybridConfigs, MustMultiplyToTheWorld) {
  testing::run_ranks(2, [](World&) {
    EXPECT_THAT(
        testing::refusal([] {
          init(true, DistributedStrategy::from_json(hybrid(2, 1, 1, 2, 1)));
        }),
        ::testing::HasSubstr(
            "dp 2 x pp 1 x sharding 1 x sep 1 x mp 2 = 4, but the world has 2 "
            "ranks"));
  });
}

} // namespace
} // namespace argosy::fleet
