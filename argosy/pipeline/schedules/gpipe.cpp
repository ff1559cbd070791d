#include "argosy/pipeline/schedules/by_stage.h"
#include "argosy/pipeline/schedules/schedules.h"

namespace argosy::pipeline {
namespace {

void append(Steps& steps, const Steps& more) {
  steps.insert(steps.end(), more.begin(), more.end());
}

} // namespace

Schedule gpipe(int stages, int microbatches, int chunks) {
  const Schedule shape{
      .name = "gpipe",
      .stages = stages,
      .microbatches = microbatches,
      .chunks = chunks};
  return by_stage(shape, [&](int) {
    Steps steps;
    for (int chunk = 0; chunk < chunks; ++chunk) {
      append(steps, all_microbatches(Pass::kForward, microbatches, chunk));
    }
    // The deepest chunk first: the others wait for its gradients.
    for (int chunk = chunks - 1; chunk >= 0; --chunk) {
      append(steps, all_microbatches(Pass::kBackward, microbatches, chunk));
    }
    return steps;
  });
}

} // namespace argosy::pipeline
