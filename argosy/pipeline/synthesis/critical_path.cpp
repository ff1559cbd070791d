#include "argosy/pipeline/synthesis/critical_path.h"

#include <optional>

namespace argosy::pipeline {
namespace {

StepRef last_to_end(const Timeline& timeline) {
  StepRef last;
  double end = -1;
  for (std::size_t stage = 0; stage < timeline.spans.size(); ++stage) {
    const auto& spans = timeline.spans[stage];
    if (!spans.empty() && spans.back().end > end) {
      last = {stage, spans.size() - 1};
      end = spans.back().end;
    }
  }
  return last;
}

// The step whose end determined when this one began: its predecessor on the
// stage, or else the sender of what it needs.
std::optional<StepRef> cause_of(
    const Schedule& schedule, const Timeline& timeline, const StepRef& ref) {
  const auto& spans = timeline.spans[ref.stage];
  const double begin = spans[ref.index].begin;
  // Exact, because make_timeline() copies that end. Whatever else this stage
  // has run ended no later, so only needs from other stages remain below.
  if (ref.index > 0 && spans[ref.index - 1].end == begin) {
    return StepRef{ref.stage, ref.index - 1};
  }
  const Step& step = schedule.steps[ref.stage][ref.index];
  const int part = schedule.part_of(static_cast<int>(ref.stage), step.chunk);
  const Dependencies needs = dependencies_of(step.pass, part, schedule.parts());
  // Without a wait for another stage, the chain ends here.
  if (begin == 0 || !needs.other) {
    return std::nullopt;
  }
  return find_step(schedule, *needs.other, step.microbatch);
}

} // namespace

std::vector<StepRef> critical_path(
    const Schedule& schedule, const Timeline& timeline) {
  std::vector<StepRef> path;
  for (std::optional<StepRef> ref = last_to_end(timeline); ref;
       ref = cause_of(schedule, timeline, *ref)) {
    path.push_back(*ref);
  }
  return path;
}

} // namespace argosy::pipeline
