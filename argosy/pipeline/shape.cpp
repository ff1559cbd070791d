#include "argosy/pipeline/shape.h"

#include "argosy/common/error.h"

namespace argosy::pipeline {
namespace {

constexpr double kMostPassages = 1e7; // of microbatches through parts

} // namespace

void check_shape(const Schedule& schedule) {
  const int stages = schedule.stages;
  const int microbatches = schedule.microbatches;
  const int chunks = schedule.chunks;
  ARGOSY_CHECK(
      stages >= 1 && microbatches >= 1 && chunks >= 1 &&
          1.0 * stages * microbatches * chunks <= kMostPassages,
      "[pipeline.schedule] ",
      schedule.name,
      " with ",
      stages,
      " stages, ",
      microbatches,
      " microbatches, ",
      chunks,
      " chunks, expected 1 or more of each, and a product of at most ",
      kMostPassages);
}

} // namespace argosy::pipeline
