#include "argosy/pipeline/schedules/by_stage.h"
#include "argosy/pipeline/schedules/schedules.h"

namespace argosy::pipeline {

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

} // namespace argosy::pipeline
