// Unchanged modules and optimizers, made parallel from outside.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "argosy/common/error.h"
#include "argosy/compat/shard_op.h"
#include "argosy/dtensor/tensor/comm_debug.h"
#include "argosy/mesh/rank_mesh.h"
#include "argosy/optim/adam.h"
#include "argosy/optim/gradients.h"
#include "argosy/semi_auto/parallelize.h"
#include "argosy/semi_auto/shard_dataloader.h"
#include "argosy/semi_auto/shard_scaler.h"
#include "argosy/semi_auto/split.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"

namespace argosy {
namespace {

using argosy::testing::run_ranks;
using ::testing::HasSubstr;

struct MlpImpl : torch::nn::Module {
  MlpImpl() {
    norm = register_module(
        "norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({8})));
    up = register_module("up", torch::nn::Linear(8, 12));
    down = register_module("down", torch::nn::Linear(12, 8));
    register_buffer("scale", torch::full({8}, 2.0f));
    set_weights();
  }

  // Thread ranks share torch's generator, so no random ones.
  void set_weights() {
    const torch::NoGradGuard no_grad;
    for (const at::Tensor& each : parameters()) {
      each.copy_(
          torch::arange(each.numel()).view_as(each).remainder(5) / 10 + 0.1);
    }
  }

  at::Tensor forward(const at::Tensor& x) {
    return x + down(torch::gelu(up(norm(x)))) * named_buffers()["scale"];
  }

  torch::nn::LayerNorm norm = nullptr;
  torch::nn::Linear up = nullptr;
  torch::nn::Linear down = nullptr;
};
TORCH_MODULE(Mlp);

at::Tensor input() {
  return torch::arange(96).reshape({4, 3, 8}).remainder(7).to(torch::kFloat) /
      7;
}

at::Tensor loss_of(const at::Tensor& y) {
  return (y - 1).pow(2).sum();
}

// Gives batches of two tensors, then ends.
struct CountingLoader {
  int left = 2;

  std::optional<data::Example> next() {
    if (left-- == 0) {
      return std::nullopt;
    }
    return data::Example{input(), torch::full({4}, left)};
  }
  int size() const { return 2; }
};

TEST(SemiAutoRanks, LoadersGiveDTensors) {
  run_ranks(4, [](World& world) {
    const ProcessMesh mesh = ProcessMesh::of_shape({2, 2}, {"dp", "mp"});
    CountingLoader whole;
    auto loader = shard_dataloader(whole, mesh, "dp");
    const auto batch = loader.next();
    ASSERT_TRUE(batch);
    EXPECT_EQ(placements_of(batch->input), (Placements{Shard(0), Replicate()}));
    EXPECT_TRUE(torch::equal(full_tensor(batch->input), input()));
    EXPECT_TRUE(loader.next());
    EXPECT_FALSE(loader.next());

    CountingLoader own;
    auto split = shard_dataloader(own, mesh, "dp", true);
    const auto joined = split.next();
    EXPECT_EQ(joined->target.size(0), 8);
    EXPECT_EQ(to_local(joined->input).size(0), 4);
    EXPECT_THROW(shard_dataloader(own, mesh, {}, true), InvalidArgument);
    EXPECT_GE(world.size(), 4);
  });
}

std::vector<at::Tensor> whole_parameters(const torch::nn::Module& module) {
  std::vector<at::Tensor> all;
  for (const at::Tensor& each : module.parameters()) {
    all.push_back(full_tensor(each.detach()).clone());
  }
  return all;
}

void expect_close(
    const std::vector<at::Tensor>& got,
    const std::vector<at::Tensor>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_TRUE(torch::allclose(got[i], expected[i], 1e-5, 1e-6))
        << i << "\n"
        << got[i] << "\n"
        << expected[i];
  }
}

template <typename Optimizer>
std::vector<at::Tensor> train_plain() {
  Mlp model;
  Optimizer optimizer(model->parameters());
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    loss_of(model(input())).backward();
    optimizer.step();
  }
  return whole_parameters(*model);
}

template <typename Optimizer>
void check_training(
    const ProcessMesh& mesh,
    const Placements& data,
    const ParallelizeConfig& config) {
  run_ranks(mesh.size(), [&](World&) {
    const auto expected = train_plain<Optimizer>();
    Mlp model;
    Optimizer inner(model->parameters());
    ShardOptimizer optimizer = parallelize(*model, inner, mesh, config);
    for (int step = 0; step < 3; ++step) {
      loss_of(model(shard_tensor(input(), mesh, data))).backward();
      optimizer.step();
      optimizer.zero_grad();
    }
    expect_close(whole_parameters(*model), expected);
  });
}

const ParallelizeConfig::Mp kMp{
    {{"up", ColWiseParallel()}, {"down", RowWiseParallel()}}};

TEST(SemiAutoRanks, ShardLayerPlacesParametersForAllWhoHoldThem) {
  run_ranks(2, [](World&) {
    const ProcessMesh mesh = ProcessMesh::of_shape({2});
    Mlp model;
    const at::Tensor held = model->up->weight;
    const at::Tensor expected = model(input());
    shard_layer(
        *model,
        mesh,
        [](const std::string& name, torch::nn::Module& layer, const auto& on) {
          if (name == "up") {
            for (const at::Tensor& each : layer.parameters()) {
              shard_tensor_(each, on, {Shard(0)});
            }
          }
        });
    EXPECT_EQ(placements_of(held), Placements{Shard(0)});
    EXPECT_EQ(to_local(held).size(0), 6);
    EXPECT_EQ(placements_of(model->down->weight), Placements{Replicate()});
    EXPECT_TRUE(is_dtensor(model->named_buffers()["scale"]));
    EXPECT_TRUE(torch::allclose(full_tensor(model(input())), expected));
  });
}

TEST(SemiAutoRanks, ShardLayerChangesInputsAndOutputs) {
  run_ranks(2, [](World&) {
    const ProcessMesh mesh = ProcessMesh::of_shape({2});
    Mlp model;
    const at::Tensor expected = model(input());
    auto sharded = shard_layer(
        model,
        mesh,
        nullptr,
        [](const at::Tensor& x, const ProcessMesh& on) {
          return shard_tensor(x, on, {Shard(0)});
        },
        [](const at::Tensor& y, const ProcessMesh&) {
          EXPECT_EQ(placements_of(y), Placements{Shard(0)});
          return full_tensor(y);
        });
    const at::Tensor y = sharded(input());
    EXPECT_FALSE(is_dtensor(y));
    EXPECT_TRUE(torch::allclose(y, expected));
  });
}

TEST(SemiAutoRanks, EveryStageTrainsAsOneProcess) {
  const ProcessMesh line = ProcessMesh::of_shape({3}, {"dp"});
  const ProcessMesh square = ProcessMesh::of_shape({2, 2}, {"dp", "mp"});
  for (const int level : {0, 1, 2, 3}) {
    const ParallelizeConfig::Dp dp{.sharding_level = level};
    check_training<torch::optim::AdamW>(line, {Shard(0)}, {.dp_config = dp});
    check_training<optim::AdamW>(
        square, {Shard(0), Replicate()}, {.mp_config = kMp, .dp_config = dp});
  }
}

// What is no element-wise optimizer runs on DTensors.
class Halver : public torch::optim::Optimizer {
 public:
  explicit Halver(std::vector<at::Tensor> parameters)
      : Optimizer(
            {std::move(parameters)},
            std::make_unique<torch::optim::SGDOptions>(0.1)) {}

  at::Tensor step(LossClosure closure = nullptr) override {
    EXPECT_EQ(closure, nullptr);
    const torch::NoGradGuard no_grad;
    for (const at::Tensor& each : param_groups()[0].params()) {
      each.sub_(each.grad() * (each.norm() / (each.grad().norm() + 1)) * 0.1);
    }
    return {};
  }
};

TEST(SemiAutoRanks, OtherOptimizersRunOnDTensors) {
  for (const int level : {0, 1, 2, 3}) {
    check_training<Halver>(
        ProcessMesh::of_shape({2}, {"dp"}),
        {Shard(0)},
        {.dp_config = ParallelizeConfig::Dp{.sharding_level = level}});
  }
}

// Of the parameter, gradient and both moments.
std::int64_t elements_kept(const at::Tensor& parameter) {
  const at::Tensor local = to_local(parameter.detach());
  const at::Tensor grad = to_local(parameter.grad());
  return local.numel() + grad.numel();
}

TEST(SemiAutoRanks, StagesKeepAPartOnEachRank) {
  run_ranks(4, [](World&) {
    const ProcessMesh mesh = ProcessMesh::of_shape({4}, {"dp"});
    for (const int level : {1, 2, 3}) {
      Mlp model;
      torch::optim::AdamW adam(model->parameters());
      ShardOptimizer optimizer = parallelize(
          *model,
          adam,
          mesh,
          {.dp_config = ParallelizeConfig::Dp{.sharding_level = level}});
      loss_of(model(shard_tensor(input(), mesh, {Shard(0)}))).backward();
      const at::Tensor& weight = model->up->weight; // 12 x 8
      const std::int64_t whole = 96;
      EXPECT_EQ(
          elements_kept(weight),
          level == 1       ? 2 * whole
              : level == 2 ? whole + whole / 4
                           : whole / 2);
      optimizer.step();
      for (const auto& each : adam.state()) {
        const auto& state =
            static_cast<torch::optim::AdamWParamState&>(*each.second);
        EXPECT_LE(state.exp_avg().numel(), whole / 4);
        EXPECT_LE(state.exp_avg_sq().numel(), whole / 4);
      }
    }
  });
}

// Clips, so that it matters whether gradients are unscaled before.
template <typename Optimizer>
std::vector<at::Tensor> train_clipped() {
  Mlp model;
  Optimizer optimizer(model->parameters());
  for (int step = 0; step < 2; ++step) {
    optimizer.zero_grad();
    loss_of(model(input())).backward();
    optim::clip_grad_norm_(model->parameters(), 2);
    optimizer.step();
  }
  return whole_parameters(*model);
}

template <typename Optimizer>
void check_scaled_training(int level) {
  run_ranks(2, [&](World&) {
    const auto expected = train_clipped<Optimizer>();
    const ProcessMesh mesh = ProcessMesh::of_shape({2}, {"dp"});
    Mlp model;
    Optimizer inner(model->parameters());
    ShardOptimizer optimizer = parallelize(
        *model,
        inner,
        mesh,
        {.dp_config = ParallelizeConfig::Dp{.sharding_level = level}});
    ShardScaler scaler = shard_scaler({.init_loss_scaling = 256});
    for (int step = 0; step < 2; ++step) {
      scaler.scale(loss_of(model(shard_tensor(input(), mesh, {Shard(0)}))))
          .backward();
      scaler.unscale_(optimizer);
      optim::clip_grad_norm_(model->parameters(), 2);
      EXPECT_TRUE(scaler.step(optimizer));
      scaler.update();
      optimizer.zero_grad();
    }
    expect_close(whole_parameters(*model), expected);
  });
}

TEST(SemiAutoRanks, ScaledStepsAreThoseOfOneProcess) {
  for (const int level : {0, 1, 2, 3}) {
    check_scaled_training<optim::AdamW>(level);
    check_scaled_training<torch::optim::AdamW>(level);
    check_scaled_training<Halver>(level);
  }
}

// The last row of the gradient, which one rank has.
TEST(SemiAutoRanks, AllRanksSkipWhatOnePartMust) {
  run_ranks(3, [](World& world) {
    const ProcessMesh mesh = ProcessMesh::of_shape({3}, {"dp"});
    Mlp model;
    optim::AdamW adam(model->parameters());
    ShardOptimizer optimizer = parallelize(
        *model,
        adam,
        mesh,
        {.dp_config = ParallelizeConfig::Dp{.sharding_level = 3}});
    ShardScaler scaler = shard_scaler({.init_loss_scaling = 8});
    const at::Tensor x = shard_tensor(input(), mesh, {Shard(0)});
    const auto before = whole_parameters(*model);
    for (const bool bad : {true, false}) {
      scaler.scale(loss_of(model(x))).backward();
      if (bad && world.rank() == 2) {
        to_local(model->up->weight.grad())[-1][0] = INFINITY;
      }
      EXPECT_EQ(scaler.step(optimizer), !bad);
      EXPECT_EQ(scaler.scaler().found_inf(), bad);
      scaler.update();
      optimizer.zero_grad();
      EXPECT_EQ(scaler.scaler().loss_scaling(), 4);
      EXPECT_EQ(torch::equal(whole_parameters(*model)[2], before[2]), bad);
    }
  });
}

// Meshes are equal whatever their names are.
TEST(SemiAutoRanks, NamesAreThoseOfTheMeshThatIsGiven) {
  run_ranks(2, [](World&) {
    shard_tensor(input(), ProcessMesh::of_shape({2}), {Shard(0)});
    Mlp model;
    optim::AdamW adam(model->parameters());
    parallelize(
        *model,
        adam,
        ProcessMesh::of_shape({2}, {"dp"}),
        {.dp_config = ParallelizeConfig::Dp{.sharding_level = 3}});
    EXPECT_EQ(placements_of(model->up->weight), Placements{Shard(0)});
  });
}

TEST(SemiAutoRanks, AnOptimizerNeedsDTensors) {
  run_ranks(1, [](World&) {
    Mlp model;
    torch::optim::SGD sgd(
        model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    EXPECT_THROW(shard_optimizer(sgd), InvalidArgument); // plain parameters
    shard_layer(*model, ProcessMesh::of_shape({1}));
    EXPECT_NO_THROW(shard_optimizer(sgd));
  });
}

TEST(ParallelizeRanks, TensorParallelReducesOnceEachWay) {
  run_ranks(2, [](World&) {
    const ProcessMesh mesh = ProcessMesh::of_shape({2}, {"mp"});
    dtensor_check_values(0); // so that only the model communicates
    Mlp model;
    parallelize(*model, mesh, {.mp_config = kMp});
    CommDebug debug;
    EXPECT_EQ(placements_of(model->up->bias), Placements{Shard(0)});
    EXPECT_EQ(placements_of(model->down->weight), Placements{Shard(1)});
    EXPECT_EQ(placements_of(model->down->bias), Placements{Replicate()});
    const at::Tensor loss = loss_of(model(input()));
    ASSERT_EQ(debug.entries().size(), 1u) << debug.table();
    EXPECT_EQ(
        debug.entries()[0],
        (CommDebug::Entry{"aten::add.Tensor", "all_reduce", 384, {0, 1}}));
    loss.backward();
    EXPECT_EQ(debug.count("all_reduce"), 2u) << debug.table();
    EXPECT_EQ(debug.entries().size(), 2u) << debug.table();
  });
}

// The first layer's output is cut by its sequence, and stays so but for what
// tensor parallelism does.
TEST(ParallelizeRanks, SequenceParallelGathersAndScatters) {
  run_ranks(2, [](World&) {
    const ProcessMesh mesh = ProcessMesh::of_shape({2}, {"mp"});
    dtensor_check_values(0);
    Mlp plain;
    const at::Tensor x = torch::cat({input(), input()}, 1);
    const at::Tensor expected = plain(torch::layer_norm(x, {8}));
    Mlp model;
    auto config = kMp;
    parallelize(*model, mesh, {.mp_config = config});
    torch::nn::LayerNorm first(torch::nn::LayerNormOptions({8}));
    parallelize(
        *first,
        mesh,
        {.mp_config =
             ParallelizeConfig::Mp{{{"weight", SequenceParallelBegin()}}}});
    CommDebug debug;
    const at::Tensor cut = first(x);
    EXPECT_EQ(placements_of(cut), Placements{Shard(1)});
    const at::Tensor y = model(cut);
    EXPECT_EQ(placements_of(y), Placements{Shard(1)});
    EXPECT_EQ(debug.count("all_gather"), 1u) << debug.table();
    EXPECT_EQ(debug.count("reduce_scatter"), 1u);
    EXPECT_EQ(debug.entries().size(), 2u);
    EXPECT_TRUE(torch::allclose(full_tensor(y), expected, 1e-5, 1e-6));
  });
}

TEST(ParallelizeRanks, PlansPrepareInputsAndOutputs) {
  run_ranks(2, [](World&) {
    const ProcessMesh mesh = ProcessMesh::of_shape({2}, {"mp"});
    Mlp model;
    const at::Tensor expected = model(input());
    std::vector<std::string> seen;
    const auto note = [&](const std::string& what) {
      return [&seen, what](const at::Tensor& tensor, const ProcessMesh&) {
        seen.push_back(str(what, " ", placements_of(tensor)));
        return tensor;
      };
    };
    parallelize(
        *model,
        mesh,
        {.mp_config = ParallelizeConfig::Mp{{
             {"up",
              {ColWiseParallel{.gather_output = true},
               PrepareLayerOutput{note("up gave")}}},
             {"down",
              {PrepareLayerInput{note("down got")},
               RowWiseParallel{.is_input_parallel = false},
               PrepareLayerInput{note("down has")}}},
             {"norm", SequenceParallelEnable()},
         }}});
    const at::Tensor y = model(input());
    EXPECT_TRUE(torch::allclose(full_tensor(y), expected, 1e-5, 1e-6));
    EXPECT_THAT(
        seen,
        ::testing::ElementsAre(
            "up gave [R]", "down got [R]", "down has [S(2)]"));
    seen.clear();
    loss_of(y).backward(); // hooks are of the forward pass
    EXPECT_TRUE(seen.empty());
    EXPECT_TRUE(model->up->weight.grad().defined());
  });
}

TEST(SplitRanks, LayersAreCutAndEqualTheWhole) {
  for (const std::string operation : {"linear", "embedding"}) {
    for (const int axis : {0, 1}) {
      for (const bool gather : {true, false}) {
        run_ranks(2, [&](World&) {
          const ProcessMesh mesh = ProcessMesh::of_shape({2}, {"mp"});
          dtensor_manual_seed(3);
          const SplitLayer layer = split(
              {6, 4}, operation, mesh, {.axis = axis, .gather_out = gather});
          const auto parameters = layer.module()->named_parameters();
          const at::Tensor weight = full_tensor(parameters["weight"].detach());
          EXPECT_EQ(to_local(parameters["weight"]).numel(), 12);
          const bool is_linear = operation == "linear";
          const at::Tensor x = is_linear
              ? torch::arange(18).view({3, 6}).to(torch::kFloat)
              : torch::tensor({5, 0, 3});
          const at::Tensor y = layer(x);
          EXPECT_EQ(placements_of(y)[0].is_replicated(), gather)
              << operation << axis << placements_of(y);
          const at::Tensor expected = is_linear
              ? torch::linear(x, weight, full_tensor(parameters["bias"]))
              : torch::embedding(weight, x);
          EXPECT_TRUE(torch::allclose(full_tensor(y), expected, 1e-4, 1e-5));
          EXPECT_THROW(split({6, 4}, "conv", mesh), InvalidArgument);
        });
      }
    }
  }
}

TEST(StrategyRanks, OpsAndLayersBySlices) {
  run_ranks(4, [](World&) {
    const ProcessMesh mesh = ProcessMesh::of_shape({2, 2});
    const at::Tensor a = input()[0]; // 3 x 8
    const auto product = shard_op(
        [](const auto& x) { return torch::matmul(x[0], x[1]); },
        mesh,
        {"mk", "kn"},
        {{2, 1}, {1, 2}});
    const at::Tensor y = product({a, a.t()});
    EXPECT_EQ(placements_of(y), (Placements{Shard(0), Shard(1)}));
    EXPECT_TRUE(torch::allclose(full_tensor(y), torch::matmul(a, a.t())));

    Mlp model;
    const at::Tensor expected = model(input());
    shard_layer_by(*model->up, mesh, {{2, 1}, {2, 1}});
    EXPECT_EQ(
        placements_of(model->up->weight), (Placements{Replicate(), Shard(0)}));
    EXPECT_EQ(
        placements_of(model->up->bias), (Placements{Replicate(), Shard(0)}));
    shard_layer(*model, mesh);
    EXPECT_TRUE(
        torch::allclose(full_tensor(model(input())), expected, 1e-5, 1e-6));
    EXPECT_THROW(shard_layer_by(*model, mesh, {{1, 1}, {1}}), InvalidArgument);
  });
}

TEST(ParallelizeRanks, ExplainWhatDoesNotFit) {
  run_ranks(1, [](World&) {
    Mlp model;
    const auto with = [&](const std::string& name, const LayerPlan& plan) {
      parallelize(
          *model,
          ProcessMesh::of_shape({1}, {"mp"}),
          {.mp_config = ParallelizeConfig::Mp{{{name, LayerPlans{plan}}}}});
    };
    EXPECT_THAT(
        [&] { with("", SequenceParallelBegin()); },
        ::testing::ThrowsMessage<InvalidArgument>(
            HasSubstr("has no parameter of its own")));
    EXPECT_THAT(
        [&] { with("up(", ColWiseParallel()); },
        ::testing::ThrowsMessage<InvalidArgument>(
            HasSubstr("not a regular expression")));
    EXPECT_THAT(
        [&] {
          parallelize(*model, ProcessMesh::of_shape({1}), {.mp_config = kMp});
        },
        ::testing::ThrowsMessage<InvalidArgument>(HasSubstr("has no axis mp")));
  });
}

} // namespace
} // namespace argosy
