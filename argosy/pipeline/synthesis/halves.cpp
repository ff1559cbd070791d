#include "argosy/pipeline/synthesis/halves.h"

#include <utility>

namespace argosy::pipeline {

Schedule halved(Schedule schedule) {
  for (auto& steps : schedule.steps) {
    std::vector<Step> halves;
    for (Step step : steps) {
      if (step.pass == Pass::kBackward) {
        step.pass = Pass::kBackwardInput;
        halves.push_back(step);
        step.pass = Pass::kBackwardWeight;
      }
      halves.push_back(step);
    }
    steps = std::move(halves);
  }
  return schedule;
}

// Tries each adjacent pair of halves on its own, with one simulation of the
// whole schedule per pair.
Schedule joined(Schedule schedule, const PartCosts& costs) {
  const double makespan =
      make_timeline(schedule, costs.times, costs.message).makespan;
  for (auto& steps : schedule.steps) {
    for (std::size_t i = 0; i + 1 < steps.size(); ++i) {
      const Step input = steps[i];
      const Step weight = steps[i + 1];
      if (input.pass != Pass::kBackwardInput ||
          weight !=
              Step{Pass::kBackwardWeight, input.chunk, input.microbatch}) {
        continue;
      }
      // Stays valid: erase() and insert() act behind it, and the erased element
      // leaves room for the inserted one.
      const auto place = steps.begin() + static_cast<std::ptrdiff_t>(i);
      steps[i].pass = Pass::kBackward;
      steps.erase(place + 1);
      // The next stage may have waited for the first half: then undo.
      if (make_timeline(schedule, costs.times, costs.message).makespan >
          makespan) {
        steps[i].pass = Pass::kBackwardInput;
        steps.insert(place + 1, weight);
      }
    }
  }
  return schedule;
}

} // namespace argosy::pipeline
