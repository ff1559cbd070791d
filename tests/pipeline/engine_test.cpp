// Pipelines on thread ranks against one process that runs the same microbatches
// one after the other: gradients are equal to the last bit.

#include "argosy/pipeline/pipeline_parallel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "argosy/checkpoint/model_file.h"
#include "argosy/comm/objects.h"
#include "argosy/comm/traffic.h"
#include "argosy/common/file.h"
#include "argosy/pipeline/measured_schedule.h"
#include "argosy/pipeline/pipeline_layer.h"
#include "argosy/pipeline/schedule_json.h"
#include "argosy/pipeline/schedules/schedules.h"
#include "argosy/pipeline/simulate.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"
#include "tests/pipeline/sleeping_layer.h"
#include "tests/support/refusal.h"

namespace argosy::pipeline {
namespace {

constexpr long kWidth = 6;

at::Tensor numbers(at::IntArrayRef sizes, double seed) {
  const long count = c10::multiply_integers(sizes);
  return torch::sin(torch::arange(count, torch::kFloat) * 0.7 + seed)
      .view(sizes);
}

struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(long width = kWidth)
      : norm(register_module(
            "norm",
            torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})))),
        up(register_module("up", torch::nn::Linear(width, 2 * width))),
        down(register_module("down", torch::nn::Linear(2 * width, width))) {}

  at::Tensor forward(const at::Tensor& x) {
    return x + down(torch::gelu(up(norm(x))));
  }

  torch::nn::LayerNorm norm;
  torch::nn::Linear up;
  torch::nn::Linear down;
};
TORCH_MODULE(Block);

at::Tensor squared_error(const Tensors& outputs, const Tensors& labels) {
  return torch::mse_loss(outputs.front(), labels.front());
}

std::vector<LayerDesc> blocks(int count) {
  std::vector<LayerDesc> layers;
  for (int i = 0; i < count; ++i) {
    layers.push_back(layer<Block>(kWidth));
  }
  return layers;
}

struct Trained {
  double loss = 0;
  std::map<std::string, at::Tensor> gradients;
};

Trained result_of(const at::Tensor& loss, torch::nn::Module& module) {
  Trained trained;
  trained.loss = loss.item<double>();
  for (const auto& item : module.named_parameters()) {
    trained.gradients[item.key()] = item.value().grad().clone();
  }
  return trained;
}

int get_rank() {
  return get_group(0)->rank();
}

// All ranks call it.
GroupPtr alone() {
  std::vector<GroupPtr> groups;
  for (int rank = 0; rank < get_group(0)->nranks(); ++rank) {
    groups.push_back(new_group({rank}));
  }
  return groups[static_cast<std::size_t>(get_rank())];
}

struct Case {
  std::vector<LayerDesc> layers;
  std::string schedule = "1f1b";
  int microbatches = 4;
  int chunks = 1;
  Tensors inputs{numbers({8, kWidth}, 1)};
  Tensors labels{numbers({8, kWidth}, 2)};
  LossFn loss = squared_error;
  int recompute_interval = 0;
  PipelineOptions options{};
};

PipelineLayer make_layers(const Case& it, GroupPtr group) {
  PipelineLayerOptions options;
  options.group = std::move(group);
  const bool is_whole = options.group->nranks() == 1;
  options.chunks = is_whole ? 1 : it.chunks;
  options.order = it.schedule == "zbv" ? PartOrder::kV : PartOrder::kRound;
  options.loss_fns = {it.loss};
  options.recompute_interval = is_whole ? 0 : it.recompute_interval;
  return PipelineLayer(it.layers, options);
}

// The same microbatches, one after the other.
Trained train_alone(const Case& it) {
  PipelineLayer layers = make_layers(it, alone());
  at::Tensor sum;
  for (const Microbatch& each :
       split_batch(it.inputs, it.labels, it.microbatches)) {
    const at::Tensor loss =
        it.loss(layers->forward(each.inputs), each.labels) / it.microbatches;
    loss.backward();
    sum = sum.defined() ? sum + loss.detach() : loss.detach();
  }
  return result_of(sum, *layers);
}

Trained train_in_stages(const Case& it) {
  PipelineLayer layers = make_layers(it, get_group(0));
  PipelineOptions options = it.options;
  options.microbatches = it.microbatches;
  options.schedule = it.schedule;
  PipelineParallel pipeline(layers.ptr(), options);
  pipeline.forward_backward(it.inputs, it.labels); // shapes are told
  layers->zero_grad();
  return result_of(pipeline.forward_backward(it.inputs, it.labels), *layers);
}

void expect_same(const Trained& stage, const Trained& whole) {
  EXPECT_NEAR(stage.loss, whole.loss, 1e-6 * std::abs(whole.loss));
  for (const auto& [name, gradient] : stage.gradients) {
    ASSERT_EQ(whole.gradients.count(name), 1) << name;
    EXPECT_TRUE(gradient.equal(whole.gradients.at(name)))
        << name << " of rank " << get_rank();
  }
}

void expect_equal(int ranks, const Case& it) {
  std::map<std::string, int> seen;
  std::mutex mutex;
  testing::run_ranks(ranks, [&](World&) {
    const Trained whole = train_alone(it);
    const Trained stage = train_in_stages(it);
    expect_same(stage, whole);
    const std::lock_guard lock(mutex);
    for (const auto& [name, gradient] : stage.gradients) {
      ++seen[name];
    }
    if (get_rank() == 0) {
      for (const auto& [name, gradient] : whole.gradients) {
        seen.emplace(name, 0);
      }
    }
  });
  EXPECT_THAT(
      seen, ::testing::Each(::testing::Pair(::testing::_, ::testing::Gt(0))));
}

struct Shape {
  std::string schedule;
  int ranks = 2;
  int chunks = 1;
  int microbatches = 4;
};

class Schedules : public ::testing::TestWithParam<Shape> {};

TEST_P(Schedules, HaveTheGradientsOfOneProcess) {
  const Shape& shape = GetParam();
  Case it{blocks(7)};
  it.schedule = shape.schedule;
  it.chunks = shape.chunks;
  it.microbatches = shape.microbatches;
  it.inputs = {numbers({2 * shape.microbatches, kWidth}, 1)};
  it.labels = {numbers({2 * shape.microbatches, kWidth}, 2)};
  expect_equal(shape.ranks, it);
}

INSTANTIATE_TEST_SUITE_P(
    All,
    Schedules,
    ::testing::Values(
        Shape{"gpipe", 3},
        Shape{"1f1b", 1},
        Shape{"1f1b", 2, 1, 1},
        Shape{"1f1b", 4, 1, 6},
        Shape{"eager", 3, 1, 5},
        Shape{"interleaved", 2, 3, 4},
        Shape{"interleaved", 3, 2, 5},
        Shape{"interleaved", 1, 3, 2},
        Shape{"zbh1", 4, 1, 6},
        Shape{"zbh1", 3, 1, 2},
        Shape{"zbv", 3, 2, 6},
        Shape{"zbv", 2, 2, 3}),
    [](const auto& named) {
      const Shape& shape = named.param;
      return shape.schedule + "_" + std::to_string(shape.ranks) + "_" +
          std::to_string(shape.chunks) + "_" +
          std::to_string(shape.microbatches);
    });

// Words in, their scores out, by the same weights. Sums of few bits are exact
// in any order.
Case shared_words(bool has_sparse_gradients) {
  const auto scores = [](torch::nn::EmbeddingImpl& words, const at::Tensor& x) {
    return torch::matmul(x, words.weight.t());
  };
  const auto words =
      torch::nn::EmbeddingOptions(5, kWidth).sparse(has_sparse_gradients);
  Case it;
  it.layers = {
      shared_layer<torch::nn::Embedding>("words", {"weight"}, words),
      layer<torch::nn::Linear>(torch::nn::LinearOptions(kWidth, kWidth)),
      shared_layer_as<torch::nn::Embedding>(
          "words", {"weight"}, scores, words)};
  it.inputs = {torch::arange(8).remainder(5)};
  it.labels = {torch::arange(8).remainder(3)};
  it.loss = [](const Tensors& outputs, const Tensors& labels) {
    return torch::cross_entropy_loss(outputs[0], labels[0]);
  };
  return it;
}

void expect_shared_gradients(const Case& it) {
  testing::run_ranks(3, [&](World&) {
    const Trained whole = train_alone(it);
    const Trained stage = train_in_stages(it);
    EXPECT_NEAR(stage.loss, whole.loss, 1e-6);
    const GroupPtr holders = new_group({0, 2});
    if (get_rank() == 1) {
      EXPECT_TRUE(
          stage.gradients.at("1.weight").equal(whole.gradients.at("1.weight")));
      return;
    }
    const std::string name = get_rank() == 0 ? "0.weight" : "2.weight";
    EXPECT_TRUE(torch::allclose(
        stage.gradients.at(name), whole.gradients.at("0.weight"), 1e-5, 1e-7));
    at::Tensor other = stage.gradients.at(name).clone();
    broadcast(other, 0, holders);
    EXPECT_TRUE(stage.gradients.at(name).equal(other));
  });
}

TEST(Pipeline, SharedWeightsGetTheSumOfTheirGradients) {
  expect_shared_gradients(shared_words(false));
}

// Sparse at one end, dense at the other.
TEST(Pipeline, SharedWeightsMayHaveSparseGradients) {
  expect_shared_gradients(shared_words(true));
}

// Several tensors of several types; some need no gradient, one is not used.
TEST(Pipeline, StagesPassSeveralTensors) {
  using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
  Case it;
  it.layers = {
      layer<Block>(kWidth),
      function([](const at::Tensor& x) -> Three {
        return {x, x.sum(-1, true) * 2, (x > 0)};
      }),
      function(
          [](const at::Tensor& x,
             const at::Tensor& sum,
             const at::Tensor& mask) -> Three {
            return {x * mask, sum + 1, mask.to(torch::kInt)};
          }),
      layer<Block>(kWidth)};
  it.layers.insert(it.layers.begin() + 3, function([](const Tensors& all) {
                     return all[0] + all[1] * all[2];
                   }));
  it.schedule = "1f1b";
  expect_equal(5, it);
  it.microbatches = 2;
  it.schedule = "zbh1";
  expect_equal(5, it);
}

// What a stage sends, an op of it may have kept for backward.
TEST(Pipeline, StagesPassWhatTheyKeep) {
  Case it;
  it.layers = {
      layer<Block>(kWidth),
      function([](const at::Tensor& x) {
        return std::make_tuple(x, x * x, x.view_as(x), torch::relu(x));
      }),
      function(
          [](const Tensors& all) { return all[0] + all[1] * all[2] + all[3]; }),
      layer<Block>(kWidth)};
  expect_equal(2, it);
  it.schedule = "zbh1";
  expect_equal(2, it);
}

TEST(Pipeline, BFloat16ActivationsTravelAsTheyAre) {
  Case it{blocks(2)};
  it.layers.insert(
      it.layers.begin() + 1,
      {function([](const at::Tensor& x) { return x.to(torch::kBFloat16); }),
       function([](const at::Tensor& x) { return x.to(torch::kFloat); })});
  expect_equal(2, it);
}

TEST(Pipeline, RecomputesInside) {
  Case it{blocks(6)};
  it.recompute_interval = 2;
  it.schedule = "zbh1";
  expect_equal(2, it);
  it.schedule = "1f1b";
  expect_equal(3, it);
}

TEST(Pipeline, FrozenFirstStageSendsNoGradients) {
  testing::run_ranks(2, [&](World&) {
    Case it{blocks(4)};
    PipelineLayer layers = make_layers(it, get_group(0));
    if (get_rank() == 0) {
      for (const at::Tensor& each : layers->parameters()) {
        each.requires_grad_(false);
      }
    }
    PipelineParallel pipeline(layers.ptr(), {.microbatches = 4});
    pipeline.forward_backward(it.inputs, it.labels);
    for (const at::Tensor& each : layers->parameters()) {
      EXPECT_EQ(each.grad().defined(), get_rank() == 1);
    }
  });
}

// Microbatches of different lengths: every message tells its shape; batches
// that come again have told theirs.
TEST(Pipeline, ShapesMayChange) {
  testing::run_ranks(3, [&](World&) {
    Case it{blocks(3)};
    PipelineLayer layers = make_layers(it, get_group(0));
    PipelineLayer whole = make_layers(it, alone());
    PipelineParallel pipeline(layers.ptr(), {.microbatches = 2});
    for (const std::pair<long, long> rows :
         {std::pair(2, 2), {3, 3}, {2, 5}, {2, 2}, {3, 3}}) {
      std::vector<Microbatch> parts(2);
      at::Tensor sum = torch::zeros({});
      layers->zero_grad();
      whole->zero_grad();
      for (std::size_t i = 0; i < 2; ++i) {
        const long count = i == 0 ? rows.first : rows.second;
        parts[i].inputs = {numbers({count, kWidth}, 1)};
        parts[i].labels = {numbers({count, kWidth}, 2)};
        const at::Tensor loss =
            squared_error(whole->forward(parts[i].inputs), parts[i].labels) / 2;
        loss.backward();
        sum += loss.detach();
      }
      const Trained expected = result_of(sum, *whole);
      expect_same(
          result_of(pipeline.forward_backward(parts), *layers), expected);
    }
  });
}

TEST(Pipeline, ModelMayChange) {
  testing::run_ranks(2, [&](World&) {
    Case it{blocks(4)};
    PipelineLayer layers = make_layers(it, get_group(0));
    PipelineParallel pipeline(layers.ptr(), {.microbatches = 4});
    pipeline.forward_backward(it.inputs, it.labels);
    layers->zero_grad();
    if (get_rank() == 0) {
      for (const at::Tensor& each : layers->parameters()) {
        each.requires_grad_(false);
      }
    }
    pipeline.forget_shapes();
    const auto before = get_group(0)->traffic().of(comm::OpKind::Send);
    pipeline.forward_backward(it.inputs, it.labels);
    const auto after = get_group(0)->traffic().of(comm::OpKind::Send);
    if (get_rank() == 1) { // no gradients: only the loss
      EXPECT_EQ(after.calls - before.calls, 1);
    }
  });
}

TEST(Pipeline, ShapesThatDependOnValuesNeedAnOption) {
  const auto positive = function(
      [](const at::Tensor& x) { return x.index({x.select(1, 0) > 0}); });
  const auto total = [](const Tensors& outputs, const Tensors&) {
    return outputs[0].sum();
  };
  const auto train = [&](bool dynamic) {
    Case it{blocks(3)};
    it.layers.insert(it.layers.begin() + 1, positive);
    it.loss = total;
    PipelineLayer layers = make_layers(it, get_group(0));
    PipelineParallel pipeline(
        layers.ptr(), {.microbatches = 4, .dynamic_shapes = dynamic});
    pipeline.forward_backward({numbers({16, kWidth}, 1)}, {});
  };
  testing::run_ranks(2, [&](World&) { train(true); });
  EXPECT_THAT(
      testing::refusal<RankFailed>(
          [&] { testing::run_ranks(2, [&](World&) { train(false); }); }),
      ::testing::HasSubstr("dynamic_shapes"));
}

TEST(Pipeline, EvaluatesWithoutGradients) {
  testing::run_ranks(2, [&](World&) {
    Case it{blocks(4)};
    it.chunks = 2;
    it.schedule = "interleaved";
    PipelineLayer layers = make_layers(it, get_group(0));
    PipelineLayer whole = make_layers(it, alone());
    PipelineParallel pipeline(
        layers.ptr(), {.microbatches = 4, .schedule = "interleaved"});
    const auto result = pipeline.evaluate(it.inputs, it.labels);
    const at::NoGradGuard no_grad;
    const at::Tensor outputs = whole->forward(it.inputs)[0];
    EXPECT_NEAR(
        result.loss.item<double>(),
        squared_error({outputs}, it.labels).item<double>(),
        1e-6);
    if (get_rank() == 1) {
      ASSERT_EQ(result.outputs.size(), 4);
      EXPECT_TRUE(torch::allclose(
          result.outputs[3][0], outputs.chunk(4)[3], 1e-5, 1e-6));
    } else {
      EXPECT_TRUE(result.outputs.empty());
    }
    EXPECT_FALSE(layers->parameters()[0].grad().defined());
  });
}

TEST(Pipeline, LossIsReducedAsConfigured) {
  using Reduction = PipelineOptions::Reduction;
  testing::run_ranks(2, [&](World&) {
    Case it{blocks(2)};
    it.inputs = {numbers({4, kWidth}, 1).repeat({4, 1})};
    it.labels = {numbers({4, kWidth}, 2).repeat({4, 1})};
    const auto train = [&](Reduction reduction, bool delay) {
      it.options.loss_reduction = reduction;
      it.options.delay_scale_loss = delay;
      return train_in_stages(it);
    };
    const Trained mean = train(Reduction::kMean, false);
    const Trained late = train(Reduction::kMean, true);
    const Trained sum = train(Reduction::kSum, false);
    EXPECT_NEAR(sum.loss, mean.loss * 4, 1e-5);
    EXPECT_EQ(late.loss, mean.loss);
    for (const auto& [name, gradient] : mean.gradients) { // 4 is exact
      EXPECT_TRUE(late.gradients.at(name).equal(gradient)) << name;
      EXPECT_TRUE(sum.gradients.at(name).equal(gradient * 4)) << name;
    }
  });
}

// What goes over a border: activations one way, gradients the other.
TEST(Pipeline, SendsWhatTheBordersNeedAndNoMore) {
  testing::run_ranks(3, [&](World&) {
    Case it{blocks(3)};
    PipelineLayer layers = make_layers(it, get_group(0));
    PipelineParallel pipeline(layers.ptr(), {.microbatches = 4});
    pipeline.forward_backward(it.inputs, it.labels);
    const auto before = get_group(0)->traffic().of(comm::OpKind::Send);
    pipeline.forward_backward(it.inputs, it.labels);
    const auto after = get_group(0)->traffic().of(comm::OpKind::Send);
    // 8 rows each way over both borders of the middle; the batch's shape, and
    // the loss with its type, besides.
    const std::uint64_t border = 8 * kWidth * 4;
    const std::map<int, std::uint64_t> sent{
        {0, border + 2 * 16}, {1, 2 * border}, {2, border + 2 * 16}};
    const std::map<int, std::uint64_t> calls{{0, 4 + 2}, {1, 8}, {2, 4 + 2}};
    EXPECT_EQ(after.bytes - before.bytes, sent.at(get_rank()));
    EXPECT_EQ(after.calls - before.calls, calls.at(get_rank()));
  });
}

TEST(Pipeline, LayersAreTheSameWhereverTheyAre) {
  testing::run_ranks(3, [&](World&) {
    Case it{blocks(5)};
    PipelineLayer layers = make_layers(it, get_group(0));
    PipelineLayer whole = make_layers(it, alone());
    const auto all = whole->named_parameters();
    for (const auto& item : layers->named_parameters()) {
      EXPECT_TRUE(item.value().equal(all[item.key()])) << item.key();
    }
    EXPECT_THAT(layers->borders(), ::testing::ElementsAre(0, 1, 3, 5));
    EXPECT_EQ(layers->get_stage_from_index(2), 1);
  });
}

TEST(Pipeline, LayersComeBackInAnotherPipeline) {
  const TempDir folder;
  testing::run_ranks(3, [&](World&) {
    Case it{blocks(5)};
    PipelineLayer layers = make_layers(it, get_group(0));
    for (const at::Tensor& each : layers->parameters()) {
      each.set_data(each + 1);
    }
    save_model(layers, folder.path());
    PipelineLayer whole = make_layers(it, alone());
    load_model(whole, folder.path());
    const auto all = whole->named_parameters();
    for (const auto& item : layers->named_parameters()) {
      EXPECT_TRUE(item.value().equal(all[item.key()])) << item.key();
    }
  });
}

TEST(Pipeline, IsCutByParametersCostsClassesAndStarts) {
  testing::run_ranks(2, [&](World&) {
    std::vector<LayerDesc> layers = blocks(4);
    layers.insert(layers.begin(), layer<Block>(60));
    layers.push_back(function([](const at::Tensor& x) { return x; }));
    const auto borders = [&](const Segmentation& how) {
      PipelineLayerOptions options;
      options.segmentation = how;
      return PipelineLayer(layers, options)->borders();
    };
    using ::testing::ElementsAre;
    EXPECT_THAT(borders({}), ElementsAre(0, 3, 6));
    EXPECT_THAT(borders({.method = "parameters"}), ElementsAre(0, 1, 6));
    EXPECT_THAT(
        borders(Segmentation::by_cost({1, 1, 1, 1, 1, 5})),
        ElementsAre(0, 5, 6));
    EXPECT_THAT(borders(Segmentation::at({0, 4})), ElementsAre(0, 4, 6));
    layers.pop_back();
    layers.pop_back();
    EXPECT_THAT(borders({.method = "layer:block"}), ElementsAre(0, 2, 4));
    EXPECT_THAT(
        testing::refusal([&] { borders({.method = "evenly"}); }),
        ::testing::HasSubstr("uniform, layer:REGEX, parameters"));
  });
}

// Layers that take 1, 1, 1 and 6 times as long.
std::vector<LayerDesc> sleeping(double unit) {
  std::vector<LayerDesc> layers;
  for (const double factor : {1, 1, 1, 6}) {
    const double time = factor * unit;
    layers.push_back(layer<testing::SleepingLayerImpl>(time, time, time));
  }
  return layers;
}

TEST(Pipeline, IsCutByWhatIsMeasured) {
  testing::run_ranks(2, [&](World&) {
    PipelineLayerOptions options;
    options.segmentation = Segmentation::measured({torch::ones({1, 1})});
    EXPECT_THAT(
        PipelineLayer(sleeping(0.001), options)->borders(),
        ::testing::ElementsAre(0, 3, 4));
    options.segmentation.examples.clear();
    EXPECT_THAT(
        testing::refusal([&] { PipelineLayer(sleeping(0), options); }),
        ::testing::HasSubstr("the inputs of a microbatch"));
  });
}

// Unequal stages by a schedule for their measured times: the same gradients,
// and, as simulated, no longer than by the one before.
TEST(Pipeline, TakesAScheduleForWhatIsMeasured) {
  testing::run_ranks(4, [&](World& world) {
    Case it{sleeping(0.002)};
    it.inputs = it.labels = {torch::ones({8, 1})};
    PipelineLayer layers = make_layers(it, get_group(0));
    PipelineParallel pipeline(
        layers.ptr(), {.microbatches = 8, .schedule = "zbh1"});
    EXPECT_THAT(
        testing::refusal([&] { measured_costs(pipeline); }),
        ::testing::HasSubstr("nothing is measured yet"));
    pipeline.forward_backward(it.inputs, it.labels);
    const Trained before = result_of(torch::zeros({}), *layers);
    const PartCosts costs = measured_costs(pipeline);
    ASSERT_EQ(costs.times.size(), 4);
    EXPECT_GT(costs.times[3].forward, 2 * costs.times[2].forward);
    EXPECT_GT(costs.times[3].weight, 2 * costs.times[2].weight);
    const Schedule found = synthesize_measured(pipeline, 4);
    std::vector<std::string> all;
    all_gather_object(all, to_json(found));
    EXPECT_THAT(all, ::testing::Each(all.front()));
    EXPECT_LE(
        simulate(found, costs).makespan,
        simulate(pipeline.schedule(), costs).makespan);
    EXPECT_LE(peak_memory(found)[static_cast<std::size_t>(world.rank())], 4);
    layers->zero_grad();
    pipeline.set_schedule(found);
    pipeline.forward_backward(it.inputs, it.labels);
    for (const auto& [name, gradient] : before.gradients) {
      EXPECT_TRUE(layers->named_parameters()[name].grad().equal(gradient));
    }
  });
}

TEST(Pipeline, RefusesWhatDoesNotFit) {
  testing::run_ranks(2, [&](World&) {
    Case it{blocks(4)};
    PipelineLayer layers = make_layers(it, get_group(0));
    const auto refusal = [&](const PipelineOptions& options) {
      return testing::refusal([&] {
        PipelineParallel pipeline(layers.ptr(), options);
        pipeline.forward_backward(it.inputs, it.labels);
      });
    };
    EXPECT_THAT(
        refusal({.microbatches = 3}),
        ::testing::HasSubstr("a batch of 8 rows, expected a multiple of 3"));
    EXPECT_THAT(
        refusal({.microbatches = 4, .schedule = "zbv"}),
        ::testing::HasSubstr("2 chunks each, in a V; the model has 2 with 1"));
    Schedule broken = make_schedule("1f1b", 2, 4);
    broken.steps[1].pop_back();
    EXPECT_NE(refusal({.microbatches = 4, .plan = broken}), "");
    EXPECT_THAT(
        testing::refusal([&] { layers->forward(it.inputs); }),
        ::testing::HasSubstr("train_batch"));
  });
}

} // namespace
} // namespace argosy::pipeline
