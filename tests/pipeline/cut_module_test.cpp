#include "argosy/pipeline/cut/cut_module.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <sstream>

#include "argosy/checkpoint/model_file.h"
#include "argosy/common/file.h"
#include "argosy/dtensor/deferred_init.h"
#include "argosy/dtensor/dtensor.h"
#include "argosy/pipeline/cut/cut_stage.h"
#include "argosy/pipeline/pipeline_parallel.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"
#include "tests/pipeline/chained_parts.h"
#include "tests/pipeline/cut_models.h"
#include "tests/support/refusal.h"

namespace argosy::testing {
namespace {

using pipeline::CutModule;
using pipeline::CutOptions;
using pipeline::CutStage;
using pipeline::existing;
using pipeline::LossFn;
using pipeline::metas_of;
using pipeline::PipelineOptions;
using pipeline::PipelineParallel;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The same on all ranks.
void set_weights(torch::nn::Module& module) {
  const torch::NoGradGuard no_grad;
  double seed = 0;
  for (const auto& item : module.named_parameters()) {
    const double middle = item.key().find("norm") != std::string::npos;
    item.value().copy_(
        torch::sin(torch::arange(item.value().numel()) * 0.7 + ++seed)
                .view_as(item.value()) /
            3 +
        middle);
  }
}

template <typename Holder, typename... Args>
Holder made(const Args&... args) {
  Holder module(args...);
  set_weights(*module);
  return module;
}

GptOptions small_gpt() {
  return {.vocab = 13, .context = 8, .width = 16, .layers = 3, .heads = 4};
}

Tensors run_all(CutModule& cut, const Tensors& inputs) {
  Tensors values = inputs;
  for (int part = 0; part < cut.num_parts(); ++part) {
    values = cut.forward(part, values, metas_of(inputs));
  }
  return values;
}

TEST(CutModule, IsRecordedAgainForOtherShapes) {
  const Gpt gpt = made<Gpt>(small_gpt());
  CutModule cut(
      gpt.ptr(),
      forward_of(gpt),
      {torch::zeros({2, 8}, torch::kLong)},
      {.points = {{"blocks.1", SplitPoint::END}}});
  for (const long length : {8, 5, 8, 3}) {
    const at::Tensor text = torch::randint(13, {4, length});
    expect_same(run_all(cut, {text}), {gpt.ptr()->forward(text)});
  }
}

TEST(CutModule, FollowsTrainingMode) {
  const ResNet net = made<ResNet>();
  const at::Tensor images = torch::randn({2, 3, 7, 7});
  CutModule cut(net.ptr(), forward_of(net), {images}, {.parts = 3});
  EXPECT_EQ(cut.num_parts(), 3);
  net.ptr()->eval();
  expect_same(run_all(cut, {images}), {net.ptr()->forward(images)});
  net.ptr()->train();
  const ResNet other = made<ResNet>();
  expect_same(run_all(cut, {images}), {other.ptr()->forward(images)});
  expect_same(
      collect(*net.ptr(), {}, {}).buffers,
      collect(*other.ptr(), {}, {}).buffers);
}

TEST(CutModule, FollowsAutocast) {
  const Gpt gpt = made<Gpt>(small_gpt());
  const at::Tensor text = torch::randint(13, {2, 8});
  CutModule cut(gpt.ptr(), forward_of(gpt), {text}, {.parts = 2});
  at::autocast::set_cpu_enabled(true);
  const at::Tensor whole = gpt.ptr()->forward(text);
  const Tensors parts = run_all(cut, {text});
  at::autocast::set_cpu_enabled(false);
  at::autocast::clear_cache();
  EXPECT_EQ(parts[0].scalar_type(), torch::kBFloat16);
  expect_same(parts, {whole});
}

TEST(CutModule, KnowsItsBorders) {
  const Gpt gpt = made<Gpt>(small_gpt());
  const CutModule cut(
      gpt.ptr(),
      forward_of(gpt),
      {torch::zeros({2, 8}, torch::kLong)},
      {.points = {{"blocks.0", SplitPoint::END}}});
  const pipeline::Metas border = {{torch::kFloat, {2, 8, 16}, true}};
  EXPECT_EQ(cut.sent(0), border);
  EXPECT_EQ(cut.received(1), border);
  ASSERT_EQ(cut.shared().size(), 1u);
  EXPECT_THAT(cut.shared().at("tokens.weight"), ElementsAre(0, 1));
}

TEST(CutModule, KeepsOnlyWhatItsPartsUse) {
  const Gpt whole = made<Gpt>(small_gpt());
  Gpt gpt = made<Gpt>(small_gpt());
  CutModule cut(
      gpt.ptr(),
      forward_of(gpt),
      {torch::zeros({2, 8}, torch::kLong)},
      {.points = {{"blocks.0", SplitPoint::END}}});
  CutModule all(
      whole.ptr(),
      forward_of(whole),
      {torch::zeros({2, 8}, torch::kLong)},
      {.points = {{"blocks.0", SplitPoint::END}}});
  const auto kept = cut.states_of({1});
  const auto memory =
      gpt->named_parameters()["places.weight"].storage().getWeakStorageImpl();
  EXPECT_FALSE(memory.expired());
  cut.keep_only({1});
  EXPECT_TRUE(memory.expired());
  const auto kept_names = kept->named_parameters().keys();
  for (const auto& item : gpt->named_parameters()) {
    const bool is_used = item.key().starts_with("blocks.1") ||
        item.key().starts_with("blocks.2") || item.key().starts_with("norm") ||
        item.key() == "tokens.weight";
    EXPECT_EQ(item.value().is_meta(), !is_used) << item.key();
    EXPECT_EQ(
        std::count(kept_names.begin(), kept_names.end(), item.key()), is_used);
  }
  kept->eval();
  EXPECT_FALSE(gpt->is_training());
  kept->train();
  for (const long length : {8, 6}) { // recorded again, without those values
    const at::Tensor text = torch::randint(13, {2, length});
    const Tensors border = all.forward(0, {text}, metas_of({text}));
    expect_same(
        cut.forward(1, border, metas_of({text})),
        all.forward(1, border, metas_of({text})));
  }
  EXPECT_TRUE(gpt->named_parameters()["places.weight"].is_meta());
}

TEST(CutModule, RefusesOtherTensorsThanAtItsBorder) {
  const Gpt gpt = made<Gpt>(small_gpt());
  CutModule cut(
      gpt.ptr(),
      forward_of(gpt),
      {torch::zeros({2, 8}, torch::kLong)},
      {.parts = 2});
  EXPECT_THAT(
      refusal([&] {
        cut.forward(1, {torch::zeros({2, 7, 16})});
      }),
      HasSubstr("got Float [2, 7, 16], expected Float [2, 8, 16]"));
}

// What a stage of a pipeline holds afterwards, or one process.
std::map<std::string, at::Tensor> gradients_of(torch::nn::Module& module) {
  return collect(module, {}, {}).grads;
}

struct Task {
  Tensors inputs;
  at::Tensor labels;
  LossFn loss;
  int microbatches = 4;
};

template <typename Impl>
std::map<std::string, at::Tensor> train_alone(Impl& module, const Task& run) {
  for (const auto& each :
       pipeline::split_batch(run.inputs, {run.labels}, run.microbatches)) {
    const Tensors outputs = pipeline::call_with_tensors(
        [&](const auto&... in) -> decltype(module.forward(in...)) {
          return module.forward(in...);
        },
        each.inputs,
        "the module");
    (run.loss(outputs, each.labels) / run.microbatches).backward();
  }
  return gradients_of(module);
}

Tensors first_of(const Task& run) {
  return pipeline::split_batch(run.inputs, {run.labels}, run.microbatches)
      .front()
      .inputs;
}

// Weights that several parts share are added up in another order.
void expect_gradients(
    CutStage& stage, const std::map<std::string, at::Tensor>& whole) {
  for (const auto& [name, gradient] : gradients_of(stage.module())) {
    EXPECT_TRUE(
        stage.cut_module().shared().count(name) > 0
            ? torch::allclose(gradient, whole.at(name), 1e-5, 1e-6)
            : is_same(gradient, whole.at(name)))
        << name;
  }
}

template <typename Holder, typename... Args>
void expect_pipeline(
    int ranks,
    const std::string& schedule,
    const Task& run,
    const CutOptions& options,
    const Args&... args) {
  run_ranks(ranks, [&](World&) {
    const Holder whole = made<Holder>(args...);
    const auto gradients = train_alone(*whole.ptr(), run);
    const auto stage = std::make_shared<CutStage>(
        existing(made<Holder>(args...)), first_of(run), options);
    PipelineParallel pipeline(
        stage,
        {run.loss},
        {.microbatches = run.microbatches, .schedule = schedule});
    pipeline.forward_backward(run.inputs, {run.labels});
    expect_gradients(*stage, gradients);
    stage->module().eval();
    EXPECT_TRUE(pipeline.evaluate(run.inputs, {run.labels})
                    .loss.isfinite()
                    .item<bool>());
  });
}

Task text_run() {
  return {
      .inputs = {torch::arange(8 * 6).view({8, 6}) * 7 % 13},
      .labels = torch::arange(8 * 6).view({8, 6}) * 5 % 13,
      .loss = [](const Tensors& outputs, const Tensors& labels) {
        return torch::cross_entropy_loss(
            outputs[0].flatten(0, 1), labels[0].flatten());
      }};
}

TEST(CutStage, TrainsAnUnchangedGpt) {
  expect_pipeline<Gpt>(
      3,
      "1f1b",
      text_run(),
      {.split_spec =
           {{"blocks.0", SplitPoint::END},
            {"blocks.2", SplitPoint::BEGINNING}}},
      small_gpt());
}

TEST(CutStage, TrainsAnUnchangedGptCutEvenlyInChunks) {
  expect_pipeline<Gpt>(
      2, "interleaved", text_run(), {.chunks = 2}, small_gpt());
  expect_pipeline<Gpt>(
      2,
      "zbv",
      text_run(),
      {.chunks = 2, .order = pipeline::PartOrder::kV, .fixed_shapes = true},
      small_gpt());
}

TEST(CutStage, CutsByMeasuredTimesAndRunsPartsAgain) {
  expect_pipeline<Gpt>(
      2,
      "1f1b",
      text_run(),
      {.weight = pipeline::CutRule::Weight::kTime,
       .recompute = RecomputeOptions()},
      small_gpt());
}

// A skip over two parts, and statistics of batches.
TEST(CutStage, TrainsAnUnchangedResNet) {
  const Task run{
      .inputs =
          {torch::sin(torch::arange(8 * 3 * 7 * 7) * 0.3).view({8, 3, 7, 7})},
      .labels = torch::arange(8) % 5,
      .loss = [](const Tensors& outputs, const Tensors& labels) {
        return torch::cross_entropy_loss(outputs[0], labels[0]);
      }};
  for (const std::string schedule : {"1f1b", "zbh1"}) {
    expect_pipeline<ResNet>(
        3,
        schedule,
        run,
        {.split_spec = {
             {"body.0", SplitPoint::END},
             {"body.2.deeper", SplitPoint::BEGINNING}}});
  }
}

TEST(CutStage, TakesSeveralInputs) {
  Task run = text_run();
  run.inputs = {
      torch::arange(8 * 4).view({8, 4}) * 3 % 11,
      torch::arange(8 * 6).view({8, 6}) * 7 % 11};
  run.labels = run.labels % 11;
  expect_pipeline<EncoderDecoder>(2, "1f1b", run, {});
}

// No rank ever has all of the values.
TEST(CutStage, MakesItsPartOfAModuleThatWasDeferred) {
  run_ranks(2, [&](World&) {
    const auto deferred_gpt = [] {
      dtensor_manual_seed(4);
      const DeferredInit deferred;
      return Gpt(small_gpt());
    };
    const Gpt whole = deferred_gpt();
    for (const auto& item : whole.ptr()->named_parameters()) {
      shard_tensor_(item.value(), ProcessMesh::of_shape({2}), {Replicate()});
    }
    CutStage stage(
        existing(deferred_gpt()), {torch::zeros({2, 8}, torch::kLong)}, {});
    for (const auto& item : stage.module().named_parameters()) {
      EXPECT_TRUE(is_same(
          item.value(), to_local(whole.ptr()->named_parameters()[item.key()])))
          << item.key();
      EXPECT_TRUE(item.value().requires_grad());
    }
    if (stage.stage() == 0) {
      const Tensors sent =
          stage.forward(0, {torch::arange(16).view({2, 8}) % 13});
      EXPECT_TRUE(sent[0].requires_grad());
    }
  });
}

// The folder has all stages' states: one process reads it, and so do stages.
TEST(CutStage, SavesTheWholeModule) {
  const TempDir dir;
  run_ranks(2, [&](World&) {
    Gpt gpt = made<Gpt>(small_gpt());
    CutStage stage(existing(gpt), {torch::zeros({2, 8}, torch::kLong)}, {});
    std::ostringstream lost;
    EXPECT_THAT(
        refusal([&] { torch::save(gpt, lost); }),
        HasSubstr("is on another stage of the pipeline"));
    save_model(stage, dir.path());
    for (const at::Tensor& each : stage.module().parameters()) {
      const torch::NoGradGuard no_grad;
      each.zero_();
    }
    load_model(stage, dir.path());
    const auto whole = made<Gpt>(small_gpt()).ptr()->named_parameters();
    for (const auto& item : stage.module().named_parameters()) {
      EXPECT_TRUE(is_same(item.value(), whole[item.key()])) << item.key();
    }
  });
  Gpt alone(small_gpt());
  load_model(alone, dir.path());
  const auto expected = made<Gpt>(small_gpt()).ptr()->named_parameters();
  for (const auto& item : alone.ptr()->named_parameters()) {
    EXPECT_TRUE(is_same(item.value(), expected[item.key()])) << item.key();
  }
}

// Into the uncut module, of which this rank has a stage.
TEST(CutStage, TorchLoadRefusesWhatIsOnOtherStages) {
  const TempDir dir;
  const auto path = (dir.path() / "gpt.pt").string();
  torch::save(made<Gpt>(small_gpt()), path);
  run_ranks(2, [&](World&) {
    Gpt gpt = made<Gpt>(small_gpt());
    CutStage stage(existing(gpt), {torch::zeros({2, 8}, torch::kLong)}, {});
    for (const at::Tensor& each : stage.module().parameters()) {
      const torch::NoGradGuard no_grad;
      each.zero_();
    }
    const auto metas = [&] {
      std::vector<bool> all;
      for (const at::Tensor& each : gpt->parameters()) {
        all.push_back(each.is_meta());
      }
      return all;
    };
    const auto before = metas();
    EXPECT_THAT(
        refusal([&] { torch::load(gpt, path); }),
        HasSubstr("load_model() of the stage"));
    load_model(stage, path);
    const auto whole = made<Gpt>(small_gpt()).ptr()->named_parameters();
    for (const auto& item : stage.module().named_parameters()) {
      EXPECT_TRUE(is_same(item.value(), whole[item.key()])) << item.key();
    }
    EXPECT_EQ(metas(), before);
  });
}

TEST(CutStage, RefusesAnotherNumberOfPoints) {
  run_ranks(2, [&](World&) {
    EXPECT_THAT(
        refusal([&] {
          CutStage(
              existing(made<Gpt>(small_gpt())),
              {torch::zeros({2, 8}, torch::kLong)},
              CutOptions{
                  .split_spec = {
                      {"blocks.0", SplitPoint::END},
                      {"blocks.1", SplitPoint::END}}});
        }),
        HasSubstr("2 points for 2 parts"));
  });
}

} // namespace
} // namespace argosy::testing
