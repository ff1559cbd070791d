#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace argosy::observe {

// What one rank knows of its steps since the last report.
struct RankStats {
  std::int64_t step = 0;  // done so far
  std::int64_t steps = 0; // since the last report
  double seconds = 0;     // of those steps
  double waited = 0;      // of those seconds, for other ranks
  double samples = 0;
  double loss_sum = 0; // each step's loss times its weight
  double loss_weight = 0;
  double period = 0; // wished seconds between reports; 0: nobody listens here
  bool finished = false;

  bool operator==(const RankStats&) const = default;
};

// Named numbers beside the fixed ones, sorted by name.
using Values = std::vector<std::pair<std::string, double>>;

// What a person wants to know of all ranks. The same on all of them, but for
// `values`, which are the rank's own.
struct Report {
  std::int64_t step = 0;
  std::int64_t total_steps = 0;   // 0: not known
  std::optional<double> loss;     // mean over samples, ranks and steps
  double samples_per_second = 0;  // of all ranks together
  double step_seconds = 0;        // mean over ranks
  double recent_step_seconds = 0; // the same over the last few reports
  std::optional<double> eta_seconds;
  std::vector<double> rank_step_seconds; // by rank, without waiting for others
  int slowest_rank = 0;
  double slowest_ratio = 1; // its time to the median of all
  bool finished = false;
  Values values;

  bool operator==(const Report&) const = default;
};

// From what all ranks gave, in rank order. Where no steps were made since the
// last report, as at the very end, the numbers are those of `previous`.
Report summarize(
    const std::vector<RankStats>& ranks,
    std::int64_t total_steps,
    const Report& previous);

// How many steps until the next report, so that it comes about when those who
// listen wish. A multiple of `every_steps` is reported instead when not 0. The
// same inputs give the same answer on all ranks.
std::int64_t steps_to_next_report(
    const std::vector<RankStats>& ranks, std::int64_t every_steps);

double median(std::vector<double> values);

// A mean that forgets: `next` was measured over `seconds`.
double smoothed(double mean, double next, double seconds);

// The report's numbers by the names that files give them.
Values scalars(const Report& report);

} // namespace argosy::observe
