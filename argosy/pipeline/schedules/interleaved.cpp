#include <algorithm>

#include "argosy/pipeline/schedules/by_stage.h"
#include "argosy/pipeline/schedules/schedules.h"

namespace argosy::pipeline {
namespace {

// Microbatches [begin, end) pass all chunks before the next group starts.
struct Group {
  int begin;
  int end;
};

// The first group takes the remainder, so that every later group has as many
// microbatches as there are stages: with fewer, a stage would wait at its next
// chunk until the first microbatch has passed all stages.
std::vector<Group> groups_of(int stages, int microbatches) {
  const int first = std::min(microbatches, stages + microbatches % stages);
  std::vector<Group> groups{{0, first}};
  for (int begin = first; begin < microbatches; begin += stages) {
    groups.push_back({begin, begin + stages});
  }
  return groups;
}

Steps in_groups(const std::vector<Group>& groups, Pass pass, int chunks) {
  Steps steps;
  for (const Group& group : groups) {
    for (int i = 0; i < chunks; ++i) {
      const int chunk = pass == Pass::kForward ? i : chunks - 1 - i;
      for (int batch = group.begin; batch < group.end; ++batch) {
        steps.push_back({pass, chunk, batch});
      }
    }
  }
  return steps;
}

} // namespace

Schedule interleaved(int stages, int microbatches, int chunks) {
  const Schedule shape{
      .name = "interleaved",
      .stages = stages,
      .microbatches = microbatches,
      .chunks = chunks};
  return by_stage(shape, [&](int stage) {
    const auto groups = groups_of(stages, microbatches);
    // The first backward needs the first group in all chunks but the last, and
    // in the last one the way to the last stage and back: 2 * after.
    const int after = stages - 1 - stage;
    return alternate(
        in_groups(groups, Pass::kForward, chunks),
        in_groups(groups, Pass::kBackward, chunks),
        chunks == 1 ? after : 2 * after + (chunks - 1) * groups[0].end);
  });
}

} // namespace argosy::pipeline
