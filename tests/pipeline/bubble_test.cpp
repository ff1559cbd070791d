// Stages that sleep instead of computing: what they wait for each other, as the
// trace shows it, against the formulas; and what stages keep, as the allocator
// sees it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "argosy/common/file.h"
#include "argosy/observe/session.h"
#include "argosy/observe/tensor_memory.h"
#include "argosy/parallel/pipeline/formulas.h"
#include "argosy/parallel/pipeline/pipeline_parallel.h"
#include "argosy/parallel/pipeline/schedules/schedules.h"
#include "argosy/parallel/pipeline/simulate.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"
#include "tests/pipeline/sleeping_layer.h"

namespace argosy::pipeline {
namespace {

using Json = nlohmann::json;

constexpr int kStages = 4;
constexpr int kMicrobatches = 8;
constexpr double kUnit = 0.020;

at::Tensor mean_of(const Tensors& outputs, const Tensors& /*labels*/) {
  return outputs[0].mean();
}

PipelineLayer make_layers(
    const Schedule& schedule, std::vector<LayerDesc> layers) {
  PipelineLayerOptions options;
  options.chunks = schedule.chunks;
  options.order = schedule.order;
  options.loss_fns = {mean_of};
  return PipelineLayer(std::move(layers), options);
}

struct Measured {
  double makespan = 0; // in seconds
  double bubble_rate = 0;
};

// What the steps in a trace say.
Measured read_trace(const std::filesystem::path& path) {
  std::ifstream file(path);
  const Json whole = Json::parse(file);
  double begin = std::numeric_limits<double>::max();
  double end = 0;
  double busy = 0;
  for (const Json& event : whole.at("traceEvents")) {
    if (event["ph"] != "X") {
      continue;
    }
    const std::string name = event["name"];
    if (name != "forward" && name.rfind("backward", 0) != 0) {
      continue;
    }
    const double at = event["ts"].get<double>() * 1e-6;
    const double duration = event["dur"].get<double>() * 1e-6;
    begin = std::min(begin, at);
    end = std::max(end, at + duration);
    busy += duration;
  }
  return {end - begin, 1 - busy / kStages / (end - begin)};
}

Measured measure(const Schedule& schedule) {
  const TempDir folder;
  const auto path = folder.path() / "trace.json";
  testing::run_ranks(kStages, [&](World&) {
    torch::set_num_threads(1);
    std::vector<LayerDesc> layers;
    for (int i = 0; i < schedule.parts(); ++i) {
      const double time = kUnit / schedule.chunks;
      layers.push_back(layer<testing::SleepingLayerImpl>(time, time, time));
    }
    PipelineLayer stage = make_layers(schedule, layers);
    PipelineParallel pipeline(
        stage.ptr(), {.microbatches = kMicrobatches, .plan = schedule});
    const at::Tensor rows = torch::ones({kMicrobatches, 1});
    pipeline.evaluate({rows}, {}); // connections
    barrier();
    observe::Session session({.progress = false, .trace = path.string()});
    pipeline.forward_backward({rows}, {});
    session.finish();
  });
  return read_trace(path);
}

class Bubble : public ::testing::TestWithParam<Schedule> {};
INSTANTIATE_TEST_SUITE_P(
    Pipeline,
    Bubble,
    ::testing::Values(
        make_schedule("gpipe", kStages, kMicrobatches),
        make_schedule("1f1b", kStages, kMicrobatches),
        make_schedule("eager", kStages, kMicrobatches),
        make_schedule("interleaved", kStages, kMicrobatches, 2),
        make_schedule("zbh1", kStages, kMicrobatches),
        make_schedule("zbv", kStages, kMicrobatches)),
    [](const auto& of) { return "s" + of.param.name; });

// The best of some tries: what else the machine does only adds.
TEST_P(Bubble, IsThatOfTheFormula) {
  const Schedule& schedule = GetParam();
  const double part = kUnit / schedule.chunks;
  const std::vector<PartTimes> times(
      static_cast<std::size_t>(schedule.parts()), {part, part, part});
  const double makespan = simulate(schedule, times).makespan;
  const auto formula = bubble_formula(schedule, times.front());
  ASSERT_TRUE(formula.has_value());
  Measured best;
  for (int i = 0; i < 5; ++i) {
    const Measured now = measure(schedule);
    if (i == 0 || now.makespan < best.makespan) {
      best = now;
    }
    if (best.makespan < makespan * 1.05) {
      break;
    }
  }
  EXPECT_GE(best.makespan, makespan * 0.999);
  EXPECT_LT(best.makespan, makespan * 1.1);
  EXPECT_NEAR(best.bubble_rate, *formula, 0.1 * *formula + 0.01);
}

// A layer that keeps just its input, of a known size.
struct SquareImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) { return x * x; }
};

class PeakMemory : public ::testing::TestWithParam<Schedule> {};
INSTANTIATE_TEST_SUITE_P(
    Pipeline,
    PeakMemory,
    ::testing::Values(
        make_schedule("gpipe", kStages, kMicrobatches),
        make_schedule("1f1b", kStages, kMicrobatches),
        make_schedule("eager", kStages, kMicrobatches),
        make_schedule("interleaved", kStages, kMicrobatches, 2),
        make_schedule("zbh1", kStages, kMicrobatches),
        make_schedule("zbv", kStages, kMicrobatches)),
    [](const auto& of) { return "s" + of.param.name; });

// Each part keeps so many tensors of one size for every microbatch that is
// under way, and nothing of it for the backward of weights. Some more are on
// their way in and out, and what the last op computes.
TEST_P(PeakMemory, IsThatOfTheFormula) {
  constexpr long kBytes = 1 << 16;
  constexpr int kKept = 24;
  const Schedule& schedule = GetParam();
  testing::run_ranks(kStages, [&](World& world) {
    const TensorMemory memory;
    std::vector<LayerDesc> layers;
    layers.push_back(layer<torch::nn::Linear>(torch::nn::LinearOptions(1, 1)));
    for (int i = 0; i < schedule.parts() * kKept - 1; ++i) {
      layers.push_back(layer<SquareImpl>());
    }
    PipelineLayer stage = make_layers(schedule, layers);
    PipelineParallel pipeline(
        stage.ptr(), {.microbatches = kMicrobatches, .plan = schedule});
    const at::Tensor rows = torch::ones({kMicrobatches * kBytes / 4, 1});
    const auto before = memory.current();
    TensorMemory().reset_peak();
    pipeline.forward_backward({rows}, {});
    const auto peak = static_cast<double>(memory.peak() - before) / kBytes;
    const double kept = kKept * stage_peak(schedule, world.rank(), {}, 0);
    EXPECT_GE(peak, kept - 2);
    EXPECT_LE(peak, kept + 14);
    if (schedule.name.rfind("zb", 0) != 0) {
      EXPECT_EQ(kept, kKept * *peak_formula(schedule, world.rank()));
    }
  });
}

} // namespace
} // namespace argosy::pipeline
