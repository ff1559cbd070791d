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
#include "argosy/pipeline/pipeline_layer.h"
#include "argosy/pipeline/pipeline_parallel.h"
#include "argosy/pipeline/schedule_formulas.h"
#include "argosy/pipeline/schedules/schedules.h"
#include "argosy/pipeline/simulate.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"
#include "tests/pipeline/sleeping_layer.h"

namespace argosy::pipeline {
namespace {

using Json = nlohmann::json;

constexpr int kStages = 4;
constexpr int kMicrobatches = 8;

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

// With so many seconds for a pass of a stage.
Measured measure(const Schedule& schedule, double unit) {
  const TempDir folder;
  const auto path = folder.path() / "trace.json";
  testing::run_ranks(kStages, [&](World&) {
    torch::set_num_threads(1);
    std::vector<LayerDesc> layers;
    for (int i = 0; i < schedule.parts(); ++i) {
      const double time = unit / schedule.chunks;
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

std::vector<Schedule> schedules() {
  return {
      make_schedule("gpipe", kStages, kMicrobatches),
      make_schedule("1f1b", kStages, kMicrobatches),
      make_schedule("eager", kStages, kMicrobatches),
      make_schedule("interleaved", kStages, kMicrobatches, 2),
      make_schedule("zbh1", kStages, kMicrobatches),
      make_schedule("zbv", kStages, kMicrobatches)};
}

class Bubble : public ::testing::TestWithParam<Schedule> {};
INSTANTIATE_TEST_SUITE_P(
    Pipeline, Bubble, ::testing::ValuesIn(schedules()), [](const auto& of) {
      return "s" + of.param.name;
    });

bool is_close(double measured, double expected) {
  return std::abs(measured - expected) <= 0.1 * expected;
}

// What else the machine does only adds, the less to longer passes.
TEST_P(Bubble, IsThatOfTheFormula) {
  const Schedule& schedule = GetParam();
  const double makespan = simulate(schedule, equal_costs(schedule)).makespan;
  const double formula = bubble_formula(schedule).value();
  Measured measured;
  for (double unit = 0.02; unit < 0.4; unit *= 2) {
    measured = measure(schedule, unit);
    measured.makespan *= schedule.chunks / unit;
    if (is_close(measured.bubble_rate, formula)) {
      break;
    }
  }
  EXPECT_PRED2(is_close, measured.makespan, makespan);
  EXPECT_PRED2(is_close, measured.bubble_rate, formula);
}

// A layer that keeps just its input, of a known size.
struct SquareImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) { return x * x; }
};

class PeakMemory : public ::testing::TestWithParam<Schedule> {};
INSTANTIATE_TEST_SUITE_P(
    Pipeline, PeakMemory, ::testing::ValuesIn(schedules()), [](const auto& of) {
      return "s" + of.param.name;
    });

// Each part keeps so many tensors of one size for every microbatch that is
// under way, and nothing of it for the backward of weights. Besides, outputs
// wait for a stage that is behind, one for each microbatch at most; and there
// is what has come ahead, and what the last op computes. The first input is the
// caller's. All that is less than what one microbatch more or less would be.
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
    EXPECT_GE(peak, kept - kMicrobatches);
    EXPECT_LE(peak, kept + kMicrobatches + 8);
    if (schedule.name.rfind("zb", 0) != 0) {
      EXPECT_EQ(kept, kKept * *peak_formula(schedule, world.rank()));
    }
  });
}

} // namespace
} // namespace argosy::pipeline
