#include "argosy/pipeline/schedule_formulas.h"

#include <algorithm>

#include "argosy/pipeline/schedules/schedules.h"

namespace argosy::pipeline {
namespace {

bool all_same(const PartTimes& times) {
  return times.forward == times.input && times.input == times.weight;
}

// The time that every stage idles.
std::optional<double> idle(const Schedule& schedule, const PartTimes& times) {
  const int p = schedule.stages;
  const int m = schedule.microbatches;
  const auto [forward, input, weight] = times;
  // Microbatches too few to fill the stages.
  const int missing = std::max(0, p - m);
  if (schedule.name == "zbh1") {
    if (missing > 0 && !all_same(times)) {
      return std::nullopt;
    }
    return (p - 1) * std::max({forward, input, forward + input - weight}) +
        missing * forward;
  }
  if (schedule.name == "zbv") {
    if (!all_same(times)) {
      return std::nullopt;
    }
    return std::max(p - 1, 4 * (p - 1) - 2 * (m - 1)) * forward;
  }
  return (p - 1 + (schedule.chunks - 1) * missing) * (forward + input + weight);
}

bool known(const Schedule& schedule) {
  const auto names = schedule_names();
  return std::ranges::find(names, schedule.name) != names.end();
}

// The forwards of the warm-up plus one.
int interleaved_peak(int after, int p, int m, int v) {
  if (v == 1) {
    return after + 1;
  }
  return 2 * after + (v - 1) * std::min(m, p + m % p) + 1;
}

} // namespace

std::optional<double> bubble_formula(
    const Schedule& schedule, const PartTimes& times) {
  const auto idles = known(schedule) ? idle(schedule, times) : std::nullopt;
  if (!idles) {
    return std::nullopt;
  }
  const double work = (times.forward + times.input + times.weight) *
      schedule.microbatches * schedule.chunks;
  return work + *idles == 0 ? 0 : *idles / (work + *idles);
}

std::optional<int> peak_formula(const Schedule& schedule, int stage) {
  if (!known(schedule)) {
    return std::nullopt;
  }
  const std::string& name = schedule.name;
  const int p = schedule.stages;
  const int m = schedule.microbatches;
  const int after = p - 1 - stage; // number of stages after this one
  const int all = schedule.chunks * m;
  if (name == "1f1b") {
    return std::min(all, after + 1);
  }
  if (name == "eager") {
    return std::min(all, 2 * after + 1);
  }
  if (name == "interleaved") {
    return std::min(all, interleaved_peak(after, p, m, schedule.chunks));
  }
  if (name == "zbh1") {
    return std::min(all, p);
  }
  if (name == "zbv") {
    return std::min({all, 2 * p, m + 1 + stage});
  }
  return all;
}

} // namespace argosy::pipeline
