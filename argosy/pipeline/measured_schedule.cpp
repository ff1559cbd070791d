#include "argosy/pipeline/measured_schedule.h"

#include "argosy/comm/objects.h"
#include "argosy/common/error.h"
#include "argosy/pipeline/pipeline_parallel.h"
#include "argosy/pipeline/schedule_json.h"

namespace argosy::pipeline {

namespace {

// The mean time of the steps of one kind; 0 if there are none.
double mean_time(const std::vector<StepTime>& steps, Pass pass, int chunk) {
  double sum = 0;
  int count = 0;
  for (const auto& [step, begin, end] : steps) {
    if (step.pass == pass && step.chunk == chunk) {
      sum += end - begin;
      ++count;
    }
  }
  return count == 0 ? 0 : sum / count;
}

bool has_halves(const std::vector<StepTime>& steps, int chunk) {
  return std::ranges::any_of(steps, [&](const StepTime& each) {
    return each.step.pass == Pass::kBackwardInput && each.step.chunk == chunk;
  });
}

PartTimes mean_times(const std::vector<StepTime>& steps, int chunk) {
  const double forward = mean_time(steps, Pass::kForward, chunk);
  if (has_halves(steps, chunk)) {
    return {
        forward,
        mean_time(steps, Pass::kBackwardInput, chunk),
        mean_time(steps, Pass::kBackwardWeight, chunk)};
  }
  const double backward = mean_time(steps, Pass::kBackward, chunk);
  // Only the sum is known. Both halves of a linear layer are one product of the
  // same size, so equal halves are a fair guess.
  return {forward, backward / 2, backward / 2};
}

} // namespace

PartCosts measured_costs(PipelineParallel& pipeline) {
  const Schedule& schedule = pipeline.schedule();
  const auto& steps = pipeline.engine().times();
  ARGOSY_CHECK(
      steps.size() ==
          schedule.steps[static_cast<std::size_t>(pipeline.model().stage())]
              .size(),
      "[pipeline] nothing is measured yet, expected a batch by "
      "forward_backward()");
  std::vector<double> own;
  for (int chunk = 0; chunk < schedule.chunks; ++chunk) {
    const PartTimes times = mean_times(steps, chunk);
    own.insert(own.end(), {times.forward, times.input, times.weight});
  }
  std::vector<std::vector<double>> all;
  all_gather_object(all, own, pipeline.model().group());
  PartCosts costs;
  for (int part = 0; part < schedule.parts(); ++part) {
    const double* its =
        all[static_cast<std::size_t>(schedule.stage_of(part))].data() +
        3 * schedule.chunk_of(part);
    costs.times.push_back({its[0], its[1], its[2]});
  }
  return costs;
}

Schedule synthesize_measured(
    PipelineParallel& pipeline, double memory_cap, const GroupPtr& group) {
  const GroupPtr ranks = group ? group : get_group(0);
  const Schedule& now = pipeline.schedule();
  SynthesisInput input;
  input.stages = now.stages;
  input.microbatches = now.microbatches;
  input.chunks = now.chunks;
  input.order = now.order;
  input.costs = measured_costs(pipeline);
  input.memory_cap = memory_cap;
  std::vector<std::string> text(1);
  // One rank searches, since a search that its time limit ends may give another
  // result on each rank.
  if (ranks->rank() == 0) {
    text[0] = to_json(synthesize(input));
  }
  broadcast_object_list(text, ranks->ranks().front(), ranks);
  return schedule_from_json(text[0], "[pipeline] the first rank's schedule");
}

} // namespace argosy::pipeline
