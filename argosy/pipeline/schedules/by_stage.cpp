#include "argosy/pipeline/schedules/by_stage.h"

#include <algorithm>

#include "argosy/pipeline/schedule.h"

namespace argosy::pipeline {

Schedule by_stage(
    Schedule shape, const std::function<Steps(int stage)>& steps_of) {
  check_shape(shape);
  for (int stage = 0; stage < shape.stages; ++stage) {
    shape.steps.push_back(steps_of(stage));
  }
  return shape;
}

Steps alternate(const Steps& forwards, const Steps& backwards, int ahead) {
  const auto warm = std::min(static_cast<std::size_t>(ahead), forwards.size());
  Steps steps(
      forwards.begin(), forwards.begin() + static_cast<std::ptrdiff_t>(warm));
  for (std::size_t i = 0; i < backwards.size(); ++i) {
    // Forward first: on the last stage the backward needs it, and elsewhere the
    // next stage waits for it.
    if (i + warm < forwards.size()) {
      steps.push_back(forwards[i + warm]);
    }
    steps.push_back(backwards[i]);
  }
  return steps;
}

Steps all_microbatches(Pass pass, int microbatches, int chunk) {
  Steps steps;
  for (int i = 0; i < microbatches; ++i) {
    steps.push_back({pass, chunk, i});
  }
  return steps;
}

} // namespace argosy::pipeline
