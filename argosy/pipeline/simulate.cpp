#include "argosy/pipeline/simulate.h"

#include <numeric>
#include <utility>

#include "argosy/pipeline/verify.h"

namespace argosy::pipeline {
namespace {

double idle_share(const std::vector<Span>& spans, double makespan) {
  double busy = 0;
  for (const Span& span : spans) {
    busy += span.end - span.begin;
  }
  return makespan == 0 ? 0 : 1 - busy / makespan;
}

} // namespace

Simulation simulate(const Schedule& schedule, const PartCosts& costs) {
  // Without it, a schedule that deadlocks would have a makespan too.
  verify(schedule);
  check_costs(costs, schedule.parts());
  Timeline timeline = make_timeline(schedule, costs.times, costs.message);
  Simulation result;
  result.makespan = timeline.makespan;
  result.spans = std::move(timeline.spans);
  for (const auto& spans : result.spans) {
    result.bubbles.push_back(idle_share(spans, result.makespan));
  }
  result.bubble_rate =
      std::accumulate(result.bubbles.begin(), result.bubbles.end(), 0.0) /
      schedule.stages;
  result.peak_activations = peak_memory(schedule, {}, costs.kept_after_input);
  result.peak_memory =
      peak_memory(schedule, costs.memory, costs.kept_after_input);
  return result;
}

Simulation simulate(
    const Schedule& schedule,
    const std::vector<PartTimes>& times,
    double message) {
  PartCosts costs;
  costs.times = times;
  costs.message = message;
  return simulate(schedule, costs);
}

} // namespace argosy::pipeline
