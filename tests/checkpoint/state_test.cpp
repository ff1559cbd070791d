// What a State takes, and what load() reports.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>

#include "argosy/checkpoint/checkpointer.h"
#include "argosy/common/file.h"
#include "argosy/data/sampler.h"
#include "argosy/data_parallel/data_parallel.h"
#include "argosy/dtensor/dtensor.h"
#include "argosy/optim/adam.h"
#include "argosy/optim/ema.h"
#include "argosy/optim/grad_scaler.h"
#include "argosy/optim/lamb.h"
#include "argosy/optim/sgd.h"
#include "argosy/pipeline/cut/cut_stage.h"
#include "argosy/semi_auto/shard_optimizer.h"
#include "argosy/sharding/group_sharded.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"
#include "tests/support/refusal.h"

namespace argosy::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

torch::nn::Sequential make_net() {
  torch::nn::Sequential net(
      torch::nn::Linear(5, 7), torch::nn::Tanh(), torch::nn::Linear(7, 3));
  const torch::NoGradGuard no_grad;
  long number = 0;
  for (const at::Tensor& each : net->parameters()) {
    each.copy_((torch::arange(each.numel()).reshape(each.sizes()) + number++)
                   .mul(0.37)
                   .sin());
  }
  return net;
}

at::Tensor input(int step) {
  return torch::arange(20).reshape({4, 5}).add(step).mul(0.1).sin();
}

// Trains and returns the loss of each step.
std::vector<double> train(
    torch::nn::Sequential& net, const std::function<void()>& step, int from) {
  std::vector<double> losses;
  for (int i = from; i < from + 3; ++i) {
    net->zero_grad();
    const at::Tensor loss = net->forward(input(i)).pow(2).mean();
    loss.backward();
    step();
    losses.push_back(loss.item<double>());
  }
  return losses;
}

using MakeOptimizer = std::function<std::unique_ptr<torch::optim::Optimizer>(
    std::vector<at::Tensor>)>;

struct NamedOptimizer {
  std::string name;
  MakeOptimizer make;
};

template <typename Optimizer, typename Options>
NamedOptimizer of(const std::string& name, const Options& options) {
  return {name, [options](std::vector<at::Tensor> params) {
            return std::make_unique<Optimizer>(std::move(params), options);
          }};
}

std::vector<NamedOptimizer> optimizers() {
  using namespace torch::optim;
  return {
      of<SGD>("SGD", SGDOptions(0.1).momentum(0.9)),
      of<torch::optim::Adam>(
          "Adam", torch::optim::AdamOptions(0.01).amsgrad(true)),
      of<torch::optim::AdamW>("AdamW", torch::optim::AdamWOptions(0.01)),
      of<torch::optim::Adagrad>("Adagrad", torch::optim::AdagradOptions(0.1)),
      of<RMSprop>("RMSprop", RMSpropOptions(0.01).momentum(0.9).centered(true)),
      of<optim::SGD>("FusedSGD", optim::SGDOptions(0.1).momentum(0.9)),
      of<optim::Adam>("FusedAdam", optim::AdamOptions(0.01)),
      of<optim::Lamb>("Lamb", optim::LambOptions(0.01))};
}

class Optimizers : public ::testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(
    Checkpoint,
    Optimizers,
    ::testing::Range<std::size_t>(0, optimizers().size()),
    [](const auto& param) { return optimizers()[param.param].name; });

TEST_P(Optimizers, ContinueExactly) {
  const NamedOptimizer kind = optimizers()[GetParam()];
  const TempDir folder;
  auto net = make_net();
  auto optimizer = kind.make(net->parameters());
  torch::optim::StepLR scheduler(*optimizer, 2, 0.5);
  const auto step = [&] {
    optimizer->step();
    scheduler.step();
  };
  train(net, step, 0);
  State state{net, *optimizer, scheduler};
  save(folder.path(), state, 3);
  const auto expected = train(net, step, 3);

  auto again = make_net();
  auto fresh = kind.make(again->parameters());
  torch::optim::StepLR rate(*fresh, 2, 0.5);
  State other{again, *fresh, rate};
  load(folder.path(), other);
  const auto got = train(
      again,
      [&] {
        fresh->step();
        rate.step();
      },
      3);
  EXPECT_EQ(got, expected);
  for (std::size_t i = 0; i < net->parameters().size(); ++i) {
    EXPECT_TRUE(net->parameters()[i].equal(again->parameters()[i])) << i;
  }
}

// A checkpoint of torch's Adam continues with ours, and the other way round.
TEST(Optimizers, OfTorchAndOursReadOneAnother) {
  const TempDir folder;
  auto net = make_net();
  torch::optim::AdamW adam(net->parameters(), torch::optim::AdamWOptions(0.01));
  train(
      net, [&] { adam.step(); }, 0);
  State state{net, adam};
  save(folder.path(), state, 3);
  const auto expected = train(
      net, [&] { adam.step(); }, 3);
  auto again = make_net();
  optim::AdamW ours(again->parameters(), optim::AdamWOptions(0.01));
  State other{again, ours};
  load(folder.path(), other, {.exclude = {"optimizer/options"}});
  const auto got = train(
      again, [&] { ours.step(); }, 3);
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], expected[i], 1e-6);
  }
}

TEST(Values, OfAllKindsComeBack) {
  const TempDir folder;
  optim::GradScaler scaler;
  scaler.set_state({.scale = 128, .num_good = 7, .num_bad = 1});
  auto net = make_net();
  optim::Ema ema(net->parameters(), {.decay = 0.5});
  ema.update();
  data::DistributedBatchSampler sampler(
      10, {.batch_size = 2, .num_replicas = 1, .rank = 0, .shuffle = true});
  sampler.next();
  std::int64_t epoch = 3;
  double best = 0.25;
  double worst = std::numeric_limits<double>::infinity();
  float unknown = std::numeric_limits<float>::quiet_NaN();
  std::string text = "a \"text\"";
  std::map<std::string, int> counts{{"a", 1}};
  State state{net, scaler, ema, sampler};
  state.add("epoch", epoch).add("best", best).add("text", text);
  state.add("worst", worst).add("unknown", unknown);
  state.add("counts", counts).add_of_rank("own", counts);
  save(folder.path(), state, 1);
  const auto position = sampler.state();
  const at::Tensor average = ema.state()[0].clone();

  scaler.set_state({});
  ema.update();
  sampler.next();
  epoch = 0;
  best = worst = 0;
  unknown = 0;
  text.clear();
  counts.clear();
  const LoadReport report = load(folder.path(), state);
  EXPECT_EQ(report.values.at("epoch"), 3);
  EXPECT_EQ(
      scaler.state(),
      (optim::GradScaler::State{.scale = 128, .num_good = 7, .num_bad = 1}));
  EXPECT_EQ(ema.num_updates(), 1);
  EXPECT_TRUE(ema.state()[0].equal(average));
  EXPECT_EQ(sampler.state(), position);
  EXPECT_EQ(epoch, 3);
  EXPECT_EQ(best, 0.25);
  EXPECT_EQ(worst, std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(unknown));
  EXPECT_EQ(text, "a \"text\"");
  EXPECT_EQ(counts, (std::map<std::string, int>{{"a", 1}}));
}

TEST(Random, GoesOn) {
  const TempDir folder;
  auto net = make_net();
  State state{net};
  torch::manual_seed(5);
  torch::rand({3});
  save(folder.path(), state, 1);
  const at::Tensor expected = torch::rand({4});
  torch::rand({9});
  load(folder.path(), state);
  EXPECT_TRUE(torch::rand({4}).equal(expected));
}

// Every type of element, shapes without elements and without dims, memory that
// is not contiguous.
TEST(Tensors, OfAllTypesAndShapes) {
  const TempDir folder;
  torch::nn::Module module;
  std::vector<at::Tensor> saved;
  for (const auto type :
       {torch::kBool,
        torch::kByte,
        torch::kChar,
        torch::kShort,
        torch::kHalf,
        torch::kBFloat16,
        torch::kInt,
        torch::kFloat,
        torch::kComplexFloat,
        torch::kDouble,
        torch::kLong}) {
    for (const at::Tensor& shape :
         {torch::ones({}),
          torch::ones({0, 3}),
          torch::ones({3, 5}),
          torch::ones({5, 3}).t(),
          torch::ones({2, 3, 4, 5})
              .contiguous(at::MemoryFormat::ChannelsLast)}) {
      const at::Tensor values =
          (shape.cumsum(shape.dim() == 0 ? 0 : shape.dim() - 1) - 1).to(type);
      module.register_buffer(
          "b" + std::to_string(saved.size()),
          values.clone(at::MemoryFormat::Preserve));
      saved.push_back(values.clone());
    }
  }
  State state;
  state.add("model", module);
  save(folder.path(), state, 0);
  for (const auto& item : module.named_buffers()) {
    item.value().zero_();
  }
  load(folder.path(), state);
  for (std::size_t i = 0; i < saved.size(); ++i) {
    EXPECT_TRUE(module.named_buffers()["b" + std::to_string(i)].equal(saved[i]))
        << i << saved[i].dtype() << saved[i].sizes();
  }
}

TEST(Reports, ListWhatIsMissingAndLeftOver) {
  const TempDir folder;
  torch::nn::Linear small(3, 2);
  State state{small};
  save(folder.path(), state, 1);
  auto net = make_net();
  State other{net};
  const at::Tensor before = net->parameters()[0].clone();
  const std::string error =
      testing::refusal<CheckpointError>([&] { load(folder.path(), other); });
  EXPECT_THAT(error, HasSubstr("lacks model/0.bias, model/0.weight"));
  EXPECT_THAT(error, HasSubstr("model/bias, model/weight"));
  EXPECT_TRUE(net->parameters()[0].equal(before));
  const LoadReport report = load(folder.path(), other, {.strict = false});
  EXPECT_THAT(
      report.missing,
      ElementsAre(
          "model/0.bias", "model/0.weight", "model/2.bias", "model/2.weight"));
  EXPECT_THAT(report.left_over, ElementsAre("model/bias", "model/weight"));
  EXPECT_TRUE(net->parameters()[0].equal(before));
}

TEST(Reports, ShapesAndTypesThatDiffer) {
  const TempDir folder;
  torch::nn::Linear net(3, 2);
  State state{net};
  save(folder.path(), state, 1);
  torch::nn::Linear other(4, 2);
  State wider{other};
  EXPECT_THAT(
      testing::refusal<CheckpointError>([&] { load(folder.path(), wider); }),
      HasSubstr("model/weight has the shape [2, 3] in the checkpoint, expected "
                "[2, 4]"));
  torch::nn::Linear half(3, 2);
  half->to(torch::kBFloat16);
  State narrower{half};
  EXPECT_THAT(
      testing::refusal<CheckpointError>([&] { load(folder.path(), narrower); }),
      HasSubstr("LoadOptions::cast"));
  load(folder.path(), narrower, {.cast = true});
  EXPECT_TRUE(half->weight.equal(net->weight.to(torch::kBFloat16)));
}

TEST(Selection, TakesPartsAndOtherNames) {
  const TempDir folder;
  auto net = make_net();
  State state{net};
  save(folder.path(), state, 1);
  torch::nn::Linear first(5, 7);
  State other{first};
  load(
      folder.path(),
      other,
      {.strict = false, .rename = [](const std::string& name) {
         return "model/0." + name.substr(name.find('/') + 1);
       }});
  EXPECT_TRUE(first->weight.equal(net->parameters()[0]));
  auto again = make_net();
  {
    const torch::NoGradGuard no_grad;
    for (const at::Tensor& each : again->parameters()) {
      each.zero_();
    }
  }
  State partial{again};
  load(folder.path(), partial, {.strict = false, .include = {"model/2.*"}});
  EXPECT_TRUE(again->parameters()[2].equal(net->parameters()[2]));
  EXPECT_EQ(again->parameters()[0].abs().sum().item<double>(), 0);
}

// What is left out is not reported, also not as left over.
TEST(Names, ThatAreExcludedAreNotLeftOver) {
  const TempDir folder;
  auto net = make_net();
  torch::optim::Adam adam(net->parameters());
  train(
      net, [&] { adam.step(); }, 0);
  State state{net, adam};
  save(folder.path(), state, 3);
  auto again = make_net();
  State model{again};
  const LoadReport report =
      load(folder.path(), model, {.exclude = {"optimizer/.*"}});
  EXPECT_TRUE(report.left_over.empty());
  EXPECT_TRUE(again->parameters()[0].equal(net->parameters()[0]));
  EXPECT_THAT(
      testing::refusal<CheckpointError>([&] { load(folder.path(), model); }),
      HasSubstr("has what the state does not: optimizer/"));
}

// An optimizer that is left out keeps its states, of torch's and of ours.
template <typename Adam>
void expect_that_states_stay(Adam&& adam, torch::nn::Sequential net) {
  const TempDir folder;
  const auto step = [&] { adam.step(); };
  train(net, step, 0);
  State state{net, adam};
  save(folder.path(), state, 3);
  const auto expected = train(net, step, 3);
  load(folder.path(), state, {.exclude = {"model/.*"}});
  const auto before = net->parameters()[0].clone();
  load(folder.path(), state, {.exclude = {"optimizer/.*"}});
  EXPECT_FALSE(net->parameters()[0].equal(before));
  EXPECT_EQ(train(net, step, 3), expected);
}

TEST(Names, ThatAreExcludedKeepTheirValues) {
  auto net = make_net();
  expect_that_states_stay(torch::optim::Adam(net->parameters()), net);
  net = make_net();
  expect_that_states_stay(
      optim::Adam(net->parameters(), optim::AdamOptions(0.01)), net);
}

TEST(Names, AreRefused) {
  auto net = make_net();
  auto other = make_net();
  State state{net};
  EXPECT_THAT(
      testing::refusal([&] { state.add(other); }),
      HasSubstr("there is a \"model\" already"));
  state.add("teacher", other);
  int value = 0;
  EXPECT_THAT(
      testing::refusal([&] { state.add("a/b", value); }), HasSubstr("a/b"));
  torch::optim::SGD sgd(make_net()->parameters(), 0.1);
  state.add("optimizer", sgd);
  const TempDir folder;
  EXPECT_THAT(
      testing::refusal([&] { save(folder.path(), state, 1); }),
      HasSubstr("belongs to no model of the state"));
}

// DTensors on one mesh, saved, and loaded on another.
TEST(DTensors, ChangeTheirMesh) {
  const TempDir folder;
  const auto make = [](const ProcessMesh& mesh) {
    auto net = make_net();
    int axis = 0;
    for (const at::Tensor& each : net->parameters()) {
      Placements placements(mesh.ndim(), Replicate());
      placements[axis++ % mesh.ndim()] = Shard(0);
      shard_tensor_(each, mesh, placements);
    }
    return net;
  };
  const auto steps = [](torch::nn::Sequential& net, ShardOptimizer& optimizer) {
    for (int i = 0; i < 3; ++i) {
      net
          ->forward(shard_tensor(
              input(i),
              process_mesh_of(net->parameters()[0]),
              Placements(
                  process_mesh_of(net->parameters()[0]).ndim(), Replicate())))
          .pow(2)
          .mean()
          .backward();
      optimizer.step();
      optimizer.zero_grad();
    }
  };
  std::vector<at::Tensor> expected;
  testing::run_ranks(6, [&](World& world) {
    auto net = make(ProcessMesh::of_shape({2, 3}, {"dp", "mp"}));
    torch::optim::AdamW adam(
        net->parameters(), torch::optim::AdamWOptions(0.1));
    auto optimizer = shard_optimizer(adam, ShardingStage1());
    steps(net, optimizer);
    State state{net, optimizer};
    save(folder.path(), state, 3);
    steps(net, optimizer);
    for (const at::Tensor& each : net->parameters()) {
      const at::Tensor whole = full_tensor(each.detach());
      if (world.rank() == 0) {
        expected.push_back(whole);
      }
    }
  });
  testing::run_ranks(4, [&](World&) {
    auto net = make(ProcessMesh::of_shape({4, 1}, {"dp", "mp"}));
    torch::optim::AdamW adam(
        net->parameters(), torch::optim::AdamWOptions(0.1));
    auto optimizer = shard_optimizer(adam, ShardingStage2());
    State state{net, optimizer};
    load(folder.path(), state);
    steps(net, optimizer);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(torch::allclose(
          full_tensor(net->parameters()[i].detach()), expected[i], 1e-4, 1e-6))
          << i;
    }
  });
}

// Stages that were cut out of a module save under its names: the whole module
// loads them, and other cuts do.
TEST(CutStages, AreTheModule) {
  const TempDir folder;
  const auto stage_of = [](torch::nn::Sequential& net) {
    return std::make_shared<pipeline::CutStage>(
        pipeline::existing(net), Tensors{input(0)}, pipeline::CutOptions{});
  };
  testing::run_ranks(2, [&](World&) {
    auto net = make_net();
    auto stage = stage_of(net);
    optim::Adam adam(stage->module().parameters(), 0.1);
    {
      const torch::NoGradGuard no_grad;
      for (const at::Tensor& each : stage->module().parameters()) {
        each.mul_(3);
      }
    }
    State state{stage, adam};
    save(folder.path(), state, 1);
  });
  auto whole = make_net();
  State state{whole};
  load(folder.path(), state, {.strict = false, .exclude = {"rank/.*"}});
  const auto expected = make_net();
  for (std::size_t i = 0; i < expected->parameters().size(); ++i) {
    EXPECT_TRUE(whole->parameters()[i].equal(expected->parameters()[i] * 3))
        << i;
  }
  testing::run_ranks(1, [&](World&) {
    auto net = make_net();
    auto stage = stage_of(net);
    State other{stage};
    load(folder.path(), other, {.strict = false});
    EXPECT_TRUE(stage->module().parameters()[0].equal(whole->parameters()[0]));
  });
}

// All ranks write about as much, and each element once.
TEST(Balance, ReplicasShareTheWork) {
  const TempDir folder;
  std::vector<std::uint64_t> bytes(4);
  testing::run_ranks(4, [&](World& world) {
    torch::nn::Linear net(512, 512);
    DataParallel model(net);
    State state{model};
    bytes[static_cast<std::size_t>(world.rank())] =
        save(folder.path(), state, 1).bytes;
  });
  const std::uint64_t whole = 512 * 513 * 4;
  std::uint64_t sum = 0;
  for (const std::uint64_t each : bytes) {
    sum += each;
    EXPECT_NEAR(static_cast<double>(each), whole / 4.0, 80e3);
  }
  EXPECT_LT(sum, whole + 100'000); // headers and random states
}

// Asynchronous saves hold the values of their moment.
TEST(Async, IsASnapshot) {
  const TempDir folder;
  torch::nn::Linear net(256, 256);
  State state{net};
  Checkpointer saver(folder.path(), {.async = true});
  for (int step = 1; step <= 3; ++step) {
    {
      const torch::NoGradGuard no_grad;
      net->weight.fill_(step);
    }
    saver.save(state, step);
    const torch::NoGradGuard no_grad;
    net->weight.fill_(-1); // at once, while it is being written
  }
  saver.wait();
  for (int step = 1; step <= 3; ++step) {
    load(folder.path(), state, {.step = step});
    EXPECT_TRUE(net->weight.eq(step).all().item<bool>()) << step;
  }
}

// With a budget that is smaller than the state, too.
TEST(Async, WritesInWavesWithinItsBudget) {
  const TempDir folder;
  auto net = torch::nn::Sequential();
  for (int i = 0; i < 6; ++i) {
    net->push_back(torch::nn::Linear(128, 128));
  }
  State state{net};
  Checkpointer saver(folder.path(), {.async = true, .staging_bytes = 100'000});
  saver.save(state, 1);
  std::vector<at::Tensor> expected;
  for (const at::Tensor& each : net->parameters()) {
    expected.push_back(each.detach().clone());
    const torch::NoGradGuard no_grad;
    each.zero_();
  }
  saver.wait();
  load(folder.path(), state);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(net->parameters()[i].equal(expected[i])) << i;
  }
}

// Also those of the job before, on as many ranks.
TEST(Frozen, ParametersAreLinkedAfterARestart) {
  const TempDir folder;
  for (const int step : {1, 2}) {
    testing::run_ranks(2, [&](World&) {
      auto net = make_net();
      net->parameters()[0].requires_grad_(false);
      net->parameters()[2].requires_grad_(false);
      State state{net};
      Checkpointer saver(folder.path());
      saver.save(state, step);
      std::vector<std::int64_t> bytes{
          static_cast<std::int64_t>(saver.last_report()->linked_bytes)};
      at::Tensor linked = torch::tensor(bytes);
      all_reduce(linked);
      const auto sum = linked.item<std::int64_t>();
      EXPECT_TRUE(step == 1 ? sum == 0 : sum > (35 + 21) * 4) << sum;
      load(folder.path(), state);
    });
  }
}

// A file that is gone is written again.
TEST(Frozen, FilesThatAreGoneAreWritten) {
  const TempDir folder;
  auto net = make_net();
  net->parameters()[0].requires_grad_(false);
  State state{net};
  Checkpointer saver(folder.path());
  saver.save(state, 1);
  std::filesystem::remove_all(folder.path() / "step-00000001");
  saver.save(state, 2);
  EXPECT_EQ(saver.last_report()->linked_bytes, 0u);
  EXPECT_EQ(load(folder.path(), state).step, 2);
}

TEST(Frozen, ParametersAreLinked) {
  const TempDir folder;
  auto net = make_net();
  net->parameters()[0].requires_grad_(false);
  State state{net};
  Checkpointer saver(folder.path());
  saver.save(state, 1);
  EXPECT_EQ(saver.last_report()->linked_bytes, 0u);
  saver.save(state, 2);
  EXPECT_GT(saver.last_report()->linked_bytes, 5u * 7u * 4u);
  {
    const torch::NoGradGuard no_grad;
    net->parameters()[0].add_(1);
  }
  const at::Tensor expected = net->parameters()[0].clone();
  saver.save(state, 3);
  EXPECT_EQ(saver.last_report()->linked_bytes, 0u);
  std::filesystem::remove_all(folder.path() / "step-00000001");
  load(folder.path(), state, {.step = 2});
  load(folder.path(), state, {.step = 3});
  EXPECT_TRUE(net->parameters()[0].equal(expected));
}

TEST(Encryption, NeedsTheKey) {
  const TempDir folder;
  torch::nn::Linear net(300, 200);
  State state{net};
  const std::vector<std::byte> bytes(32, std::byte{9});
  const std::vector<std::byte> wrong(32, std::byte{8});
  save(folder.path(), state, 1, {.key = Key(bytes)});
  const at::Tensor expected = net->weight.detach().clone();
  EXPECT_THAT(
      testing::refusal<CheckpointError>([&] { load(folder.path(), state); }),
      HasSubstr("is encrypted"));
  EXPECT_NE(
      testing::refusal<CheckpointError>(
          [&] { load(folder.path(), state, {.key = Key(wrong)}); }),
      "");
  {
    const torch::NoGradGuard no_grad;
    net->weight.zero_();
  }
  load(folder.path(), state, {.key = Key(bytes)});
  EXPECT_TRUE(net->weight.equal(expected));
}

TEST(Keep, RemovesWhatThePolicyDoesNotKeep) {
  EXPECT_THAT(
      superfluous({{1, {}}, {2, {}}, {3, {}}, {4, {}}}, {.last = 2}),
      ElementsAre(1, 2));
  EXPECT_THAT(
      superfluous(
          {{10, {}}, {15, {}}, {20, {}}, {25, {}}}, {.last = 1, .every = 10}),
      ElementsAre(15));
  EXPECT_THAT(
      superfluous(
          {{1, 0.5}, {2, 0.1}, {3, 0.3}, {4, 0.9}},
          {.last = 1, .best = 1, .metric = "loss"}),
      ElementsAre(1, 3));
  EXPECT_THAT(superfluous({{1, {}}, {2, {}}}, {}), ElementsAre());
}

} // namespace
} // namespace argosy::checkpoint
