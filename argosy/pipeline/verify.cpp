#include "argosy/pipeline/verify.h"

#include <array>

#include "argosy/common/error.h"
#include "argosy/common/text.h"
#include "argosy/pipeline/schedule.h"
#include "argosy/pipeline/step_text.h"
#include "argosy/pipeline/timeline.h"

namespace argosy::pipeline {
namespace {

std::string where_of(const Schedule& schedule) {
  return str("[pipeline.verify] \"", schedule.name, "\": ");
}

std::string text_of(const Schedule& schedule, const StepRef& ref) {
  const auto [stage, index] = ref;
  return str_format(
      "stage {} at its step {} ({})",
      stage,
      index,
      schedule.steps[stage][index]);
}

void check_range(
    const Schedule& schedule,
    const StepRef& ref,
    const char* what,
    int value,
    int count) {
  ARGOSY_CHECK(
      value >= 0 && value < count,
      "{}{} has {} {}, expected 0 to {}",
      where_of(schedule),
      text_of(schedule, ref),
      what,
      value,
      count - 1);
}

void check_ranges(const Schedule& schedule, const StepRef& ref) {
  const Step& step = schedule.steps[ref.stage][ref.index];
  check_range(schedule, ref, "pass", static_cast<int>(step.pass), 4);
  check_range(schedule, ref, "chunk", step.chunk, schedule.chunks);
  check_range(
      schedule, ref, "microbatch", step.microbatch, schedule.microbatches);
}

// How often each pass of a part occurs for a microbatch.
using Counts = std::array<int, 4>;

std::vector<Counts> count_passes(const Schedule& schedule) {
  std::vector<Counts> counts(
      static_cast<std::size_t>(schedule.parts() * schedule.microbatches));
  for (int stage = 0; stage < schedule.stages; ++stage) {
    const auto& steps = schedule.steps[static_cast<std::size_t>(stage)];
    for (std::size_t i = 0; i < steps.size(); ++i) {
      check_ranges(schedule, {static_cast<std::size_t>(stage), i});
      const Step& step = steps[i];
      const int part = schedule.part_of(stage, step.chunk);
      ++counts[static_cast<std::size_t>(
          part * schedule.microbatches + step.microbatch)]
              [static_cast<std::size_t>(step.pass)];
    }
  }
  return counts;
}

// Each part runs each microbatch forward once and backward once, whole or in
// halves. With that, a schedule is correct if it ends.
void check_complete(const Schedule& schedule) {
  const auto counts = count_passes(schedule);
  for (int part = 0; part < schedule.parts(); ++part) {
    for (int batch = 0; batch < schedule.microbatches; ++batch) {
      const Counts& count = counts[static_cast<std::size_t>(
          part * schedule.microbatches + batch)];
      const auto [forward, whole, input, weight] = count;
      ARGOSY_CHECK(
          count == (Counts{1, 1, 0, 0}) || count == (Counts{1, 0, 1, 1}),
          "{}stage {} runs part {} for microbatch {} with {} forwards, {} "
          "whole backwards, {} of inputs, {} of weights, expected one forward "
          "and one whole backward or one of each half",
          where_of(schedule),
          schedule.stage_of(part),
          part,
          batch,
          forward,
          whole,
          input,
          weight);
    }
  }
}

// Returns for example "stage 0 at its step 2 (B0) waits for stage 1 at its step
// 1 (B0)".
std::vector<std::string> waits_of(
    const Schedule& schedule, const Timeline& timeline, int stage) {
  const auto own = static_cast<std::size_t>(stage);
  const auto& steps = schedule.steps[own];
  const auto& ran = timeline.spans[own];
  std::vector<std::string> waits;
  if (ran.size() == steps.size()) {
    return waits;
  }
  const Step& step = steps[ran.size()];
  const Dependencies needs = dependencies_of(
      step.pass, schedule.part_of(stage, step.chunk), schedule.parts());
  for (const auto& need : {needs.own, needs.other}) {
    if (!need) {
      continue;
    }
    // A need that has run is not what the stage waits for.
    const StepRef other = find_step(schedule, *need, step.microbatch);
    if (other.index >= timeline.spans[other.stage].size()) {
      waits.push_back(
          str(text_of(schedule, {own, ran.size()}),
              " waits for ",
              text_of(schedule, other)));
    }
  }
  return waits;
}

std::string where_it_stands(
    const Schedule& schedule, const Timeline& timeline) {
  std::vector<std::string> all;
  for (int stage = 0; stage < schedule.stages; ++stage) {
    const auto waits = waits_of(schedule, timeline, stage);
    all.insert(all.end(), waits.begin(), waits.end());
  }
  return join(all, "; ");
}

} // namespace

void verify(const Schedule& schedule) {
  check_shape(schedule);
  ARGOSY_CHECK(
      schedule.steps.size() == static_cast<std::size_t>(schedule.stages),
      "{}steps of {} stages, expected {}",
      where_of(schedule),
      schedule.steps.size(),
      schedule.stages);
  // Comes first: make_timeline() indexes by part and microbatch, and waits_of()
  // looks for steps that must exist.
  check_complete(schedule);
  // Deadlocks do not depend on times, so any times will do.
  const std::vector<PartTimes> times(
      static_cast<std::size_t>(schedule.parts()));
  const Timeline timeline = make_timeline(schedule, times, 0);
  ARGOSY_CHECK(
      timeline.finished(schedule),
      "{}the stages wait for one another: {}",
      where_of(schedule),
      where_it_stands(schedule, timeline));
}

} // namespace argosy::pipeline
