#include "argosy/pipeline/schedule.h"

#include "argosy/common/error.h"

namespace argosy::pipeline {
namespace {

constexpr double kMostForwards = 1e7; // limit of microbatches x parts

// In a V, every second chunk runs from the last stage to the first.
bool runs_upward(PartOrder order, int chunk) {
  return order == PartOrder::kV && chunk % 2 == 1;
}

} // namespace

int Schedule::stage_of(int part) const {
  const int place = part % stages;
  return runs_upward(order, chunk_of(part)) ? stages - 1 - place : place;
}

int Schedule::part_of(int stage, int chunk) const {
  const int place = runs_upward(order, chunk) ? stages - 1 - stage : stage;
  return chunk * stages + place;
}

void check_shape(const Schedule& schedule) {
  const int stages = schedule.stages;
  const int microbatches = schedule.microbatches;
  const int chunks = schedule.chunks;
  ARGOSY_CHECK(
      stages >= 1 && microbatches >= 1 && chunks >= 1 &&
          1.0 * stages * microbatches * chunks <= kMostForwards,
      "[pipeline.schedule] {} with {} stages, {} microbatches, {} chunks, "
      "expected 1 or more of each, and a product of at most {}",
      schedule.name,
      stages,
      microbatches,
      chunks,
      kMostForwards);
}

} // namespace argosy::pipeline
