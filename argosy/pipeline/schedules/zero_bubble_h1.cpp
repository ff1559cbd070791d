#include <algorithm>

#include "argosy/pipeline/schedules/by_stage.h"
#include "argosy/pipeline/schedules/schedules.h"

namespace argosy::pipeline {
namespace {

// As 1F1B, but the backward of weights lags that of inputs by as many
// microbatches as there are stages before: what it lags by is done at the end,
// while the stages before still wait.
Steps steps_of(int stage, int stages, int microbatches) {
  const int ahead = std::min(stages - stage, microbatches);
  Steps steps = all_microbatches(Pass::kForward, ahead);
  for (int i = 0; i < microbatches; ++i) {
    steps.push_back({Pass::kBackwardInput, 0, i});
    if (i >= stage) {
      steps.push_back({Pass::kBackwardWeight, 0, i - stage});
    }
    if (i + ahead < microbatches) {
      steps.push_back({Pass::kForward, 0, i + ahead});
    }
  }
  for (int i = std::max(0, microbatches - stage); i < microbatches; ++i) {
    steps.push_back({Pass::kBackwardWeight, 0, i});
  }
  return steps;
}

} // namespace

Schedule zero_bubble_h1(int stages, int microbatches) {
  const Schedule shape{
      .name = "zbh1", .stages = stages, .microbatches = microbatches};
  return by_stage(
      shape, [&](int stage) { return steps_of(stage, stages, microbatches); });
}

} // namespace argosy::pipeline
