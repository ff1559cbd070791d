#include "argosy/pipeline/part_costs.h"

#include <algorithm>
#include <cmath>

#include "argosy/common/error.h"

namespace argosy::pipeline {
namespace {

void check_number(const char* what, double value) {
  ARGOSY_CHECK(
      std::isfinite(value) && value >= 0,
      "[pipeline.costs] {} {}, expected a number >= 0",
      what,
      value);
}

void check_size(const char* what, std::size_t size, int parts) {
  ARGOSY_CHECK(
      size == static_cast<std::size_t>(parts),
      "[pipeline.costs] {} of {} parts, expected {}, one for each chunk of "
      "each stage",
      what,
      size,
      parts);
}

} // namespace

PartCosts equal_costs(const Schedule& schedule, PartTimes times) {
  PartCosts costs;
  costs.times.assign(static_cast<std::size_t>(schedule.parts()), times);
  return costs;
}

void check_costs(const PartCosts& costs, int parts) {
  check_size("times", costs.times.size(), parts);
  for (const PartTimes& times : costs.times) {
    check_number("time of forward", times.forward);
    check_number("time of backward of inputs", times.input);
    check_number("time of backward of weights", times.weight);
  }
  check_number("time of a message", costs.message);
  if (!costs.memory.empty()) {
    check_size("memory", costs.memory.size(), parts);
  }
  for (const double memory : costs.memory) {
    check_number("memory", memory);
  }
  ARGOSY_CHECK(
      costs.kept_after_input >= 0 && costs.kept_after_input <= 1,
      "[pipeline.costs] kept_after_input {}, expected a fraction from 0 to 1",
      costs.kept_after_input);
}

// A forward keeps the activations of one microbatch; the changes of its passes
// add up to 0 whether backward is whole or in halves.
double memory_change(Pass pass, double kept_after_input) {
  switch (pass) {
    case Pass::kForward:
      return 1;
    case Pass::kBackward:
      return -1;
    case Pass::kBackwardInput:
      return kept_after_input - 1;
    case Pass::kBackwardWeight:
      return -kept_after_input;
  }
  return 0;
}

double stage_peak(
    const Schedule& schedule,
    int stage,
    const std::vector<double>& memory,
    double kept_after_input) {
  double kept = 0;
  double peak = 0;
  for (const Step& step : schedule.steps[static_cast<std::size_t>(stage)]) {
    const int part = schedule.part_of(stage, step.chunk);
    const double own =
        memory.empty() ? 1 : memory[static_cast<std::size_t>(part)];
    kept += own * memory_change(step.pass, kept_after_input);
    peak = std::max(peak, kept);
  }
  return peak;
}

std::vector<double> peak_memory(
    const Schedule& schedule,
    const std::vector<double>& memory,
    double kept_after_input) {
  std::vector<double> peaks;
  for (int stage = 0; stage < schedule.stages; ++stage) {
    peaks.push_back(stage_peak(schedule, stage, memory, kept_after_input));
  }
  return peaks;
}

} // namespace argosy::pipeline
