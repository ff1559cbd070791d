#pragma once

#include "argosy/comm/objects.h"
#include "argosy/pipeline/measured_schedule.h"
#include "argosy/pipeline/pipeline_parallel.h"
#include "argosy/pipeline/schedule_formulas.h"
#include "argosy/pipeline/simulate.h"

// The bubbles of a pipeline's last batch.
namespace argosy::bench {

// Gathers the numbers of all ranks, in rank order.
inline std::vector<std::vector<double>> gathered(
    const std::vector<double>& own) {
  std::vector<std::vector<double>> all;
  all_gather_object(all, own);
  return all;
}

// The fraction of the time between the first and the last step of all stages in
// which stages were idle. All processes of a machine share the clock.
inline double measured_bubble(pipeline::Engine& engine) {
  const std::chrono::duration<double> start = engine.start().time_since_epoch();
  double busy = 0;
  for (const auto& [step, begin, end] : engine.times()) {
    busy += end - begin;
  }
  const auto all = gathered(
      {start.count() + engine.times().front().begin,
       start.count() + engine.times().back().end,
       busy});
  double begin = all[0][0];
  double end = all[0][1];
  double sum = 0;
  for (const auto& each : all) {
    begin = std::min(begin, each[0]);
    end = std::max(end, each[1]);
    sum += each[2];
  }
  return 1 - sum / static_cast<double>(all.size()) / (end - begin);
}

inline pipeline::PartTimes mean_of(
    const std::vector<pipeline::PartTimes>& times) {
  pipeline::PartTimes mean{0, 0, 0};
  const auto count = static_cast<double>(times.size());
  for (const auto& each : times) {
    mean.forward += each.forward / count;
    mean.input += each.input / count;
    mean.weight += each.weight / count;
  }
  return mean;
}

// Returns the measured bubble; the one simulated with the measured step times;
// and that of the formula, for `equal` parts (by default with their mean
// times), or -1. All ranks call it.
inline std::vector<double> bubbles(
    pipeline::PipelineParallel& pipeline,
    std::optional<pipeline::PartTimes> equal = {}) {
  const pipeline::Schedule& schedule = pipeline.schedule();
  const auto times = measured_costs(pipeline).times;
  const auto formula = bubble_formula(schedule, equal.value_or(mean_of(times)));
  return {
      measured_bubble(pipeline.engine()),
      simulate(schedule, times).bubble_rate,
      formula.value_or(-1)};
}

} // namespace argosy::bench
