// Placements that the user says: of optimizer states, of each tensor of a
// batch, and on the current mesh.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "argosy/mesh/rank_mesh.h"
#include "argosy/optim/adam.h"
#include "argosy/semi_auto/parallelize.h"
#include "argosy/semi_auto/shard_dataloader.h"
#include "argosy/semi_auto/split.h"
#include "tests/dtensor/op_checks.h"
#include "tests/support/refusal.h"

namespace argosy {
namespace {

using testing::exact_values;
using ::testing::HasSubstr;
using testing::refusal;
using testing::run_ranks;

torch::nn::Linear make_linear() {
  torch::nn::Linear linear(6, 4);
  const torch::NoGradGuard no_grad;
  linear->weight.copy_(exact_values({4, 6}));
  linear->bias.copy_(exact_values({4}, 1));
  return linear;
}

// Two steps of AdamW; `step` steps.
template <typename Step>
void train(torch::nn::Linear& linear, const at::Tensor& x, const Step& step) {
  for (int i = 0; i < 2; ++i) {
    linear->zero_grad();
    linear(x).pow(2).mean().backward();
    step();
  }
}

TEST(PlacedByHandRanks, AFunctionSaysWhereOptimizerStatesAre) {
  const at::Tensor x = exact_values({4, 6}, 2);
  torch::nn::Linear alone = make_linear();
  torch::optim::AdamW expected(alone->parameters());
  train(alone, x, [&] { expected.step(); });
  run_ranks(2, [&](World&) {
    const ProcessMesh mesh = ProcessMesh::of_shape({2}, {"dp"});
    torch::nn::Linear linear = make_linear();
    shard_layer(*linear, mesh);
    torch::optim::AdamW adam(linear->parameters());
    auto optimizer = shard_optimizer(adam, [](const at::Tensor& parameter) {
      return parameter.dim() == 2 ? Placements{Shard(1)}
                                  : placements_of(parameter);
    });
    EXPECT_EQ(adam.param_groups()[0].params()[0].numel(), 12); // a half
    EXPECT_EQ(adam.param_groups()[0].params()[1].numel(), 4);
    train(linear, shard_tensor(x, mesh, {Shard(0)}), [&] { optimizer.step(); });
    EXPECT_TRUE(torch::allclose(
        full_tensor(linear->weight.detach()), alone->weight, 1e-5, 1e-6));
    EXPECT_TRUE(torch::allclose(
        full_tensor(linear->bias.detach()), alone->bias, 1e-5, 1e-6));
    torch::optim::AdamW other(linear->parameters());
    EXPECT_THAT(
        refusal([&] {
          shard_optimizer(
              other, [](const at::Tensor&) { return Placements{Partial()}; });
        }),
        HasSubstr("expected Shard and Replicate"));
  });
}

// ---- Each accumulator by itself ---------------------------------------------

// A linear layer after two steps of an optimizer in one process.
template <typename Optimizer, typename Options>
torch::nn::Linear trained_alone(const at::Tensor& x, const Options& options) {
  torch::nn::Linear linear = make_linear();
  Optimizer optimizer(linear->parameters(), options);
  train(linear, x, [&] { optimizer.step(); });
  return linear;
}

// On 2 ranks, with accumulators where `shard_fn` puts them; `check` sees the
// optimizer afterwards.
template <typename Optimizer, typename Options, typename Check>
void check_accumulators(
    const Options& options,
    const ShardAccumulatorFn& shard_fn,
    const Check& check) {
  const at::Tensor x = exact_values({4, 6}, 2);
  const torch::nn::Linear alone = trained_alone<Optimizer>(x, options);
  run_ranks(2, [&](World&) {
    const ProcessMesh mesh = ProcessMesh::of_shape({2}, {"dp"});
    torch::nn::Linear linear = make_linear();
    shard_layer(*linear, mesh);
    Optimizer inner(linear->parameters(), options);
    auto optimizer = shard_optimizer(inner, shard_fn);
    train(linear, shard_tensor(x, mesh, {Shard(0)}), [&] { optimizer.step(); });
    EXPECT_TRUE(torch::allclose(
        full_tensor(linear->weight.detach()), alone->weight, 1e-5, 1e-6));
    EXPECT_TRUE(torch::allclose(
        full_tensor(linear->bias.detach()), alone->bias, 1e-5, 1e-6));
    EXPECT_EQ(placements_of(linear->weight), Placements{Replicate()});
    check(inner);
  });
}

// The state of the first parameter.
template <typename State, typename Optimizer>
State& first_state(Optimizer& optimizer) {
  const auto& parameter = optimizer.param_groups()[0].params()[0];
  return static_cast<State&>(*optimizer.state().at(
      c10::guts::to_string(parameter.unsafeGetTensorImpl())));
}

at::Tensor mixed(
    const std::string& name,
    const at::Tensor& parameter,
    const at::Tensor& accumulator) {
  if (parameter.dim() == 1 || name == "max_exp_avg_sq") {
    return accumulator;
  }
  return reshard(accumulator, {Shard(name == "exp_avg_sq" ? 1 : 0)});
}

TEST(PlacedByHandRanks, AFunctionPlacesEachAccumulator) {
  using namespace torch::optim; // NOLINT
  check_accumulators<AdamW>(
      AdamWOptions(0.1).amsgrad(true), mixed, [](AdamW& adam) {
        auto& state = first_state<AdamWParamState>(adam);
        EXPECT_EQ(placements_of(state.exp_avg()), Placements{Shard(0)});
        EXPECT_EQ(placements_of(state.exp_avg_sq()), Placements{Shard(1)});
        EXPECT_EQ(
            placements_of(state.max_exp_avg_sq()), Placements{Replicate()});
        EXPECT_EQ(to_local(state.exp_avg()).numel(), 12);
      });
  check_accumulators<SGD>(
      SGDOptions(0.1).momentum(0.9).dampening(0.1), mixed, [](SGD& sgd) {
        EXPECT_EQ(
            placements_of(first_state<SGDParamState>(sgd).momentum_buffer()),
            Placements{Shard(0)});
      });
  check_accumulators<RMSprop>(
      RMSpropOptions(0.1).momentum(0.5).centered(true),
      mixed,
      [](RMSprop& rmsprop) {
        auto& state = first_state<RMSpropParamState>(rmsprop);
        EXPECT_EQ(placements_of(state.grad_avg()), Placements{Shard(0)});
        EXPECT_EQ(placements_of(state.square_avg()), Placements{Shard(0)});
      });
  check_accumulators<Adagrad>(AdagradOptions(0.1), mixed, [](Adagrad& adagrad) {
    EXPECT_EQ(
        placements_of(first_state<AdagradParamState>(adagrad).sum()),
        Placements{Shard(0)});
  });
}

// Fused updates take all accumulators of an element at once.
TEST(PlacedByHandRanks, FusedOptimizersPlaceTheirAccumulatorsAlike) {
  const auto halves = [](const std::string&,
                         const at::Tensor& parameter,
                         const at::Tensor& accumulator) {
    return parameter.dim() == 1 ? accumulator
                                : reshard(accumulator, {Shard(1)});
  };
  check_accumulators<optim::AdamW>(
      optim::AdamWOptions(0.1), halves, [](optim::AdamW& adam) {
        EXPECT_EQ(adam.param_groups()[0].params()[0].numel(), 12);
        EXPECT_EQ(adam.state_dict().at("0.exp_avg").numel(), 12);
      });
  run_ranks(2, [](World&) {
    torch::nn::Linear linear = make_linear();
    shard_layer(*linear, ProcessMesh::of_shape({2}, {"dp"}));
    optim::AdamW adam(linear->parameters(), optim::AdamWOptions(0.1));
    EXPECT_THAT(
        refusal([&] { shard_optimizer(adam, mixed); }),
        HasSubstr("expected the same placements, or an optimizer of torch"));
  });
}

TEST(PlacedByHandRanks, AccumulatorsStayWhatTheyAre) {
  run_ranks(2, [](World&) {
    torch::nn::Linear linear = make_linear();
    shard_layer(*linear, ProcessMesh::of_shape({2}, {"dp"}));
    torch::optim::AdamW adam(linear->parameters());
    EXPECT_THAT(
        refusal([&] {
          shard_optimizer(
              adam,
              [](const std::string&, const at::Tensor&, const at::Tensor& it) {
                return to_local(it);
              });
        }),
        HasSubstr("for exp_avg of a parameter of shape [4, 6], expected"));
    torch::optim::LBFGS other(linear->parameters());
    EXPECT_THAT(
        refusal([&] { shard_optimizer(other, mixed); }),
        HasSubstr("none of SGD, Adam, AdamW"));
  });
}

// The constructor of torch's Adagrad makes its states.
TEST(PlacedByHandRanks, AdagradTakesAStage) {
  const at::Tensor x = exact_values({4, 6}, 2);
  const auto options =
      torch::optim::AdagradOptions(0.1).initial_accumulator_value(0.5);
  const torch::nn::Linear alone =
      trained_alone<torch::optim::Adagrad>(x, options);
  run_ranks(2, [&](World&) {
    const ProcessMesh mesh = ProcessMesh::of_shape({2}, {"dp"});
    torch::nn::Linear linear = make_linear();
    shard_layer(*linear, mesh);
    torch::optim::Adagrad adagrad(linear->parameters(), options);
    auto optimizer = shard_optimizer(adagrad, ShardingStage1("dp"));
    EXPECT_EQ(
        first_state<torch::optim::AdagradParamState>(adagrad).sum().numel(),
        12);
    train(linear, shard_tensor(x, mesh, {Shard(0)}), [&] { optimizer.step(); });
    EXPECT_TRUE(torch::allclose(
        full_tensor(linear->weight.detach()), alone->weight, 1e-5, 1e-6));
  });
}

// Of a linear layer: two steps before the optimizer is sharded, with plain
// parameters or with DTensors, and two after. `check` sees the optimizer.
template <typename Optimizer, typename Options, typename Check>
void check_stepped(const Options& options, const Check& check) {
  const at::Tensor x = exact_values({4, 6}, 2);
  const auto train_once =
      [&](auto& linear, const at::Tensor& in, auto& stepper) {
        linear->zero_grad();
        linear(in).pow(2).mean().backward();
        stepper.step();
      };
  torch::nn::Linear alone = make_linear();
  Optimizer expected(alone->parameters(), options);
  for (int step = 0; step < 4; ++step) {
    train_once(alone, x, expected);
  }
  for (const bool is_plain : {false, true}) {
    run_ranks(2, [&](World&) {
      const ProcessMesh mesh = ProcessMesh::of_shape({2}, {"dp"});
      torch::nn::Linear linear = make_linear();
      const at::Tensor part = shard_tensor(x, mesh, {Shard(0)});
      if (!is_plain) {
        shard_layer(*linear, mesh);
      }
      Optimizer inner(linear->parameters(), options);
      train_once(linear, is_plain ? x : part, inner);
      train_once(linear, is_plain ? x : part, inner);
      shard_layer(*linear, mesh); // does nothing where it has been done
      auto optimizer = shard_optimizer(inner, ShardingStage1("dp"));
      check(inner);
      train_once(linear, part, optimizer);
      train_once(linear, part, optimizer);
      EXPECT_TRUE(torch::allclose(
          full_tensor(linear->weight.detach()), alone->weight, 1e-4, 1e-5));
      EXPECT_TRUE(torch::allclose(
          full_tensor(linear->bias.detach()), alone->bias, 1e-4, 1e-5));
    });
  }
}

TEST(PlacedByHandRanks, AnOptimizerMayHaveStepped) {
  using namespace torch::optim; // NOLINT
  check_stepped<AdamW>(AdamWOptions(0.1), [](AdamW& adam) {
    auto& state = first_state<AdamWParamState>(adam);
    EXPECT_EQ(state.step(), 2);
    EXPECT_EQ(state.exp_avg().sizes(), (std::vector<std::int64_t>{2, 6}));
  });
  check_stepped<SGD>(SGDOptions(0.1).momentum(0.9), [](SGD& sgd) {
    EXPECT_EQ(first_state<SGDParamState>(sgd).momentum_buffer().numel(), 12);
  });
  check_stepped<Adagrad>(AdagradOptions(0.1), [](Adagrad& adagrad) {
    EXPECT_EQ(first_state<AdagradParamState>(adagrad).sum().numel(), 12);
  });
  check_stepped<optim::AdamW>(optim::AdamWOptions(0.1), [](optim::AdamW& adam) {
    EXPECT_EQ(adam.state_dict().at("0.exp_avg").numel(), 12);
    EXPECT_EQ(adam.state_dict().at("0.step").item<int>(), 2);
  });
}

template <typename Batch>
struct OneBatch {
  Batch batch;

  std::optional<Batch> next() { return batch; }
  int size() const { return 1; }
};

TEST(PlacedByHandRanks, EachTensorOfABatchHasItsMeshAndCuts) {
  run_ranks(4, [](World&) {
    const auto first = ProcessMesh::of_ranks({0, 1}, "sep");
    const auto last = ProcessMesh::of_ranks({2, 3}, "dp");
    const at::Tensor tokens = exact_values({4, 6});
    const at::Tensor labels = exact_values({4}, 1);
    OneBatch<data::Example> pairs{{tokens, labels}};
    const std::vector<BatchInput> inputs{
        {first, {Shard(1)}}, {last, {Shard(0)}}};
    auto loader = shard_dataloader(pairs, inputs);
    const auto batch = loader.next();
    EXPECT_EQ(dist_attr(batch->input), DistAttr(first, {Shard(1)}));
    EXPECT_EQ(dist_attr(batch->target), DistAttr(last, {Shard(0)}));
    const ProcessMesh all = ProcessMesh::of_shape({4});
    EXPECT_TRUE(torch::equal(
        full_tensor(reshard(batch->input, all, {Replicate()})), tokens));
    EXPECT_TRUE(torch::equal(
        full_tensor(reshard(batch->target, all, {Replicate()})), labels));

    OneBatch<std::map<std::string, at::Tensor>> named{
        {{"labels", labels}, {"tokens", tokens}}};
    auto by_name =
        shard_dataloader(named, inputs, {.input_keys = {"tokens", "labels"}});
    EXPECT_EQ(
        placements_of(by_name.next()->at("tokens")), Placements{Shard(1)});
  });
}

TEST(PlacedByHandRanks, RefusesBatchesOfOtherTensors) {
  run_ranks(1, [](World&) {
    const ProcessMesh mesh = ProcessMesh::of_shape({1});
    const std::vector<BatchInput> two{
        {mesh, {Shard(0)}}, {mesh, {Replicate()}}};
    const at::Tensor x = exact_values({2});
    OneBatch<std::vector<at::Tensor>> three{{x, x, x}};
    EXPECT_THAT(
        refusal([&] { shard_dataloader(three, two).next(); }),
        HasSubstr("a batch of 3 tensors, expected 2"));
    OneBatch<std::map<std::string, at::Tensor>> named{{{"a", x}, {"b", x}}};
    EXPECT_THAT(
        refusal([&] {
          shard_dataloader(named, two, {.input_keys = {"a", "c"}}).next();
        }),
        HasSubstr("a tensor b, and input_keys are [a, c]"));
  });
}

TEST(PlacedByHandRanks, TheCurrentMeshCountsWhereNoneIsGiven) {
  run_ranks(2, [](World&) {
    EXPECT_THAT(
        refusal([] { shard_tensor(exact_values({4}), {Shard(0)}); }),
        HasSubstr("[shard_tensor] no mesh is given, and this rank has no "
                  "current one"));
    const ProcessMesh mesh = ProcessMesh::of_shape({2}, {"mp"});
    set_mesh(mesh);
    const at::Tensor value = exact_values({4, 6});
    const DistAttr rows(mesh, {Shard(0)});
    const at::Tensor x = shard_tensor(value, {Shard(0)});
    EXPECT_EQ(dist_attr(x), rows);
    EXPECT_EQ(dist_attr(from_local(to_local(x), {Shard(0)})), rows);
    EXPECT_EQ(dist_attr(from_local(to_local(x), {Shard(0)}, {4, 6})), rows);
    EXPECT_EQ(
        dist_attr(dtensor_from_fn([&] { return value; }, {Shard(0)})), rows);
    EXPECT_EQ(dist_attr(dtensor_rand({4, 6}, {Shard(0)})), rows);
    EXPECT_EQ(dist_attr(dtensor_randn({4, 6}, {Shard(0)})), rows);
    EXPECT_EQ(dist_attr(reshard(x, {Shard(1)})), DistAttr(mesh, {Shard(1)}));
    const at::Tensor plain = value.clone();
    shard_tensor_(plain, {Shard(0)});
    EXPECT_EQ(dist_attr(plain), rows);

    torch::nn::Linear layer = make_linear();
    shard_layer(*layer);
    EXPECT_EQ(placements_of(layer->weight), Placements{Replicate()});
    torch::nn::Sequential net(make_linear());
    parallelize(*net, {.mp_config = {{"0", ColWiseParallel()}}});
    EXPECT_EQ(dist_attr(net->parameters()[0]), rows);
    EXPECT_EQ(
        dist_attr(
            split({6, 4}, "linear", {.axis = 1}).module()->parameters()[0]),
        rows);
    OneBatch<at::Tensor> batches{value};
    EXPECT_EQ(
        placements_of(*shard_dataloader(batches).next()),
        Placements{Replicate()});
  });
}

} // namespace
} // namespace argosy
