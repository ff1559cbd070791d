#include "argosy/observe/report.h"

#include <algorithm>
#include <cmath>

namespace argosy::observe {

namespace {

double per_step(double seconds, const RankStats& stats) {
  return seconds / static_cast<double>(std::max<std::int64_t>(1, stats.steps));
}

void name_slowest(Report& report) {
  const std::vector<double>& times = report.rank_step_seconds;
  const auto slowest = std::ranges::max_element(times);
  // The median, since a single slow rank would move a mean.
  const double middle = median(times);
  report.slowest_rank = static_cast<int>(slowest - times.begin());
  report.slowest_ratio = middle > 0 ? *slowest / middle : 1;
}

// Sets the rates from the steps that were made.
void measure(const std::vector<RankStats>& ranks, Report& report) {
  double loss_sum = 0;
  double loss_weight = 0;
  double seconds = 0;
  double steps = 0;
  report.samples_per_second = 0;
  report.rank_step_seconds.resize(ranks.size());
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const RankStats& stats = ranks[rank];
    loss_sum += stats.loss_sum;
    loss_weight += stats.loss_weight;
    seconds += stats.seconds;
    steps += static_cast<double>(stats.steps);
    report.samples_per_second +=
        stats.seconds > 0 ? stats.samples / stats.seconds : 0;
    if (stats.steps > 0) { // a rank that has finished keeps its last time
      // Waits do not count: in lockstep all ranks take the same time, and only
      // the time that a rank works itself tells which one is slow.
      report.rank_step_seconds[rank] =
          per_step(std::max(0.0, stats.seconds - stats.waited), stats);
    }
  }
  if (loss_weight > 0) {
    report.loss = loss_sum / loss_weight;
  }
  report.step_seconds = seconds / steps;
  report.recent_step_seconds = report.recent_step_seconds == 0
      ? report.step_seconds
      : smoothed(
            report.recent_step_seconds,
            report.step_seconds,
            seconds / static_cast<double>(ranks.size()));
  name_slowest(report);
}

} // namespace

double median(std::vector<double> values) {
  if (values.empty()) {
    return 0;
  }
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle]
                                : (values[middle - 1] + values[middle]) / 2;
}

// An exponential mean over time, not over reports: a report of many steps
// weighs more than one of few.
double smoothed(double mean, double next, double seconds) {
  constexpr double kMemory = 5; // time constant in seconds
  const double share = 1 - std::exp(-seconds / kMemory);
  return mean + share * (next - mean);
}

Report summarize(
    const std::vector<RankStats>& ranks,
    std::int64_t total_steps,
    const Report& previous) {
  Report report = previous;
  report.total_steps = total_steps;
  report.finished = true;
  bool any_steps = false;
  for (const RankStats& stats : ranks) {
    report.step = std::max(report.step, stats.step);
    report.finished = report.finished && stats.finished;
    any_steps = any_steps || stats.steps > 0;
  }
  // Final reports of ranks that wait for others add no steps.
  if (any_steps) {
    measure(ranks, report);
  }
  report.eta_seconds.reset();
  if (total_steps > 0 && report.recent_step_seconds > 0) {
    const auto left = std::max<std::int64_t>(0, total_steps - report.step);
    report.eta_seconds = static_cast<double>(left) * report.recent_step_seconds;
  }
  return report;
}

// The next gather is collective, so all ranks must agree on its step: each
// computes it from the same numbers of all ranks.
std::int64_t steps_to_next_report(
    const std::vector<RankStats>& ranks, std::int64_t every_steps) {
  std::int64_t step = 0;
  double period = 0;
  double slowest = 0;
  for (const RankStats& stats : ranks) {
    step = std::max(step, stats.step);
    if (stats.period > 0 && (period == 0 || stats.period < period)) {
      period = stats.period;
    }
    slowest = std::max(slowest, per_step(stats.seconds, stats));
  }
  if (every_steps > 0) {
    return every_steps - step % every_steps;
  }
  if (slowest <= 0) {
    return 1; // nothing is known yet
  }
  // Bounds the cast for steps of almost no time.
  constexpr double kMost = 1e6;
  return static_cast<std::int64_t>(
      std::clamp(std::ceil(period / slowest), 1.0, kMost));
}

Values scalars(const Report& report) {
  Values values;
  if (report.loss) {
    values.emplace_back("loss", *report.loss);
  }
  values.emplace_back("samples_per_second", report.samples_per_second);
  values.emplace_back("step_seconds", report.step_seconds);
  if (report.rank_step_seconds.size() > 1) {
    values.emplace_back("slowest_ratio", report.slowest_ratio);
  }
  values.insert(values.end(), report.values.begin(), report.values.end());
  return values;
}

} // namespace argosy::observe
