#include "argosy/pipeline/synthesis/critical_path.h"

#include <optional>

namespace argosy::pipeline {
namespace {

Place last_to_end(const Replay& played) {
  Place last;
  double end = -1;
  for (std::size_t stage = 0; stage < played.spans.size(); ++stage) {
    const auto& spans = played.spans[stage];
    if (!spans.empty() && spans.back().end > end) {
      last = {stage, spans.size() - 1};
      end = spans.back().end;
    }
  }
  return last;
}

// The step whose end made this one begin when it did: the one before it at the
// stage, else the one that sent what it needs.
std::optional<Place> cause_of(
    const Schedule& schedule, const Replay& played, const Place& place) {
  const auto& spans = played.spans[place.stage];
  const double begin = spans[place.index].begin;
  if (place.index > 0 && spans[place.index - 1].end == begin) {
    return Place{place.stage, place.index - 1};
  }
  const Step& step = schedule.steps[place.stage][place.index];
  const int part = schedule.part_of(static_cast<int>(place.stage), step.chunk);
  const Needs needs = needs_of(step.pass, part, schedule.parts());
  if (begin == 0 || !needs.other) {
    return std::nullopt;
  }
  return find_step(schedule, *needs.other, step.microbatch);
}

} // namespace

std::vector<Place> critical_path(
    const Schedule& schedule, const Replay& played) {
  std::vector<Place> path;
  for (std::optional<Place> place = last_to_end(played); place;
       place = cause_of(schedule, played, *place)) {
    path.push_back(*place);
  }
  return path;
}

} // namespace argosy::pipeline
