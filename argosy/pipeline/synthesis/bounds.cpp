#include "argosy/pipeline/synthesis/bounds.h"

#include <algorithm>

namespace argosy::pipeline {

double least_cap(const Schedule& shape, const PartCosts& costs) {
  double least = 0;
  for (int stage = 0; stage < shape.stages; ++stage) {
    double own = 0;
    for (int chunk = 0; chunk < shape.chunks; ++chunk) {
      own += costs.memory.empty()
          ? 1
          : costs.memory[static_cast<std::size_t>(shape.part_of(stage, chunk))];
    }
    least = std::max(least, own);
  }
  return least;
}

// The first p parts lie on the stages 0 to p - 1 in both part orders, so one
// walk over them visits each stage once, in the order in which the first
// microbatch reaches the stages.
double least_makespan(const Schedule& shape, const PartCosts& costs) {
  double least = 0;
  double reached = 0;
  for (int part = 0; part < shape.stages; ++part) {
    double work = 0;
    for (int chunk = 0; chunk < shape.chunks; ++chunk) {
      const auto& times = costs.times[static_cast<std::size_t>(
          shape.part_of(shape.stage_of(part), chunk))];
      work += times.forward + times.input + times.weight;
    }
    // `reached` is when the first microbatch can arrive at this stage.
    least = std::max(least, reached + work * shape.microbatches);
    reached +=
        costs.times[static_cast<std::size_t>(part)].forward + costs.message;
  }
  return least * (1 + 1e-9);
}

} // namespace argosy::pipeline
