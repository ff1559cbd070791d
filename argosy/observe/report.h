#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace argosy::observe {

// One rank's statistics since the last report.
struct RankStats {
  std::int64_t step = 0;  // steps done so far
  std::int64_t steps = 0; // since the last report
  double seconds = 0;     // duration of those steps
  double waited = 0; // of those seconds, time spent waiting for other ranks
  double samples = 0;
  double loss_sum = 0; // sum of loss times weight
  double loss_weight = 0;
  double period = 0; // desired seconds between reports; 0: no sink here
  bool finished = false;

  bool operator==(const RankStats&) const = default;
};

// Named values, sorted by name.
using Values = std::vector<std::pair<std::string, double>>;

// A summary over all ranks. Equal on all of them, except `values`, which are
// the rank's own.
struct Report {
  std::int64_t step = 0;
  std::int64_t total_steps = 0;   // 0: unknown
  std::optional<double> loss;     // mean over samples, ranks and steps
  double samples_per_second = 0;  // of all ranks together
  double step_seconds = 0;        // mean over ranks
  double recent_step_seconds = 0; // smoothed over the last reports
  std::optional<double> eta_seconds;
  std::vector<double> rank_step_seconds; // by rank, without time spent waiting
  int slowest_rank = 0;
  double slowest_ratio = 1; // its step time divided by the median
  bool finished = false;
  Values values;

  bool operator==(const Report&) const = default;
};

// Computes the report from all ranks' statistics, in rank order. If there were
// no steps since the last report, as at the end, the rates are those of
// `previous`.
Report summarize(
    const std::vector<RankStats>& ranks,
    std::int64_t total_steps,
    const Report& previous);

// Returns the number of steps until the next report, so that it comes when the
// sinks want it. If `every_steps` > 0, reports come at its multiples instead.
// Deterministic, so that all ranks agree.
std::int64_t steps_to_next_report(
    const std::vector<RankStats>& ranks, std::int64_t every_steps);

double median(std::vector<double> values);

// Exponential smoothing; `next` was measured over `seconds`.
double smoothed(double mean, double next, double seconds);

// Returns the report's numbers with the names used in files.
Values scalars(const Report& report);

} // namespace argosy::observe
