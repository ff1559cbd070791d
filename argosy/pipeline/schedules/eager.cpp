#include "argosy/pipeline/schedules/by_stage.h"
#include "argosy/pipeline/schedules/schedules.h"

namespace argosy::pipeline {

Schedule eager(int stages, int microbatches) {
  const Schedule shape{
      .name = "eager", .stages = stages, .microbatches = microbatches};
  return by_stage(shape, [&](int stage) {
    return alternate(
        all_microbatches(Pass::kForward, microbatches),
        all_microbatches(Pass::kBackward, microbatches),
        2 * (stages - 1 - stage));
  });
}

} // namespace argosy::pipeline
