#include <algorithm>

#include "argosy/pipeline/schedules/by_stage.h"
#include "argosy/pipeline/schedules/schedules.h"

// 1F1B and two schedules of the same shape.
namespace argosy::pipeline {
namespace {

// Like 1F1B, but the backward of weights lags behind that of inputs by as many
// microbatches as there are stages before this one. The lag is made up at the
// end, while the earlier stages are still busy.
Steps zero_bubble_steps(int stage, int stages, int microbatches) {
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

Schedule one_forward_one_backward(int stages, int microbatches) {
  const Schedule shape{
      .name = "1f1b", .stages = stages, .microbatches = microbatches};
  return by_stage(shape, [&](int stage) {
    return alternate(
        all_microbatches(Pass::kForward, microbatches),
        all_microbatches(Pass::kBackward, microbatches),
        stages - 1 - stage);
  });
}

Schedule eager(int stages, int microbatches) {
  const Schedule shape{
      .name = "eager", .stages = stages, .microbatches = microbatches};
  return by_stage(shape, [&](int stage) {
    return alternate(
        all_microbatches(Pass::kForward, microbatches),
        all_microbatches(Pass::kBackward, microbatches),
        // One more forward for each later stage than 1F1B.
        2 * (stages - 1 - stage));
  });
}

Schedule zero_bubble_h1(int stages, int microbatches) {
  const Schedule shape{
      .name = "zbh1", .stages = stages, .microbatches = microbatches};
  return by_stage(shape, [&](int stage) {
    return zero_bubble_steps(stage, stages, microbatches);
  });
}

} // namespace argosy::pipeline
