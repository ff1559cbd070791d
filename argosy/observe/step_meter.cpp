#include "argosy/observe/step_meter.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/observe/observer.h"

namespace argosy::observe {

namespace {

double steady_seconds() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

StepMeterOptions checked(StepMeterOptions options) {
  ARGOSY_CHECK(
      options.total_steps >= 0 && options.first_step >= 0 &&
          options.report_every_steps >= 0,
      "[observe.step_meter] steps are negative: total {}, first {}, report "
      "every {}",
      options.total_steps,
      options.first_step,
      options.report_every_steps);
  if (!options.clock) {
    options.clock = steady_seconds;
  }
  return options;
}

// Listens to reports on behalf of other ranks, so that waits are measured here.
class Elsewhere : public Sink {
 public:
  bool wants(Interest interest) const override {
    return interest == Interest::Reports;
  }
  std::chrono::duration<double> report_period() const override {
    return std::chrono::seconds(0);
  }
};

} // namespace

StepMeter::StepMeter(
    Observer& observer, StepMeterOptions options, GatherStats gather_stats)
    : observer_(observer),
      options_(checked(std::move(options))),
      gather_stats_(
          gather_stats ? std::move(gather_stats) : [](const RankStats& own) {
            return std::vector<RankStats>{own};
          }) {
  stats_.step = options_.first_step;
  stats_.period = observer_.report_period();
  const auto ranks = gather_stats_(stats_);
  // If a single rank shows reports, all must take part in gathering.
  active_ = std::ranges::any_of(
      ranks, [](const auto& stats) { return stats.period > 0; });
  if (!active_) {
    return;
  }
  if (stats_.period == 0) {
    interest_ = std::make_shared<Elsewhere>();
    observer_.add(interest_);
  }
  next_report_ =
      stats_.step + steps_to_next_report(ranks, options_.report_every_steps);
  last_.step = stats_.step;
  // Waits before the first step belong to no step.
  observer_.take_waited();
  skip_time();
}

StepMeter::~StepMeter() {
  if (interest_) {
    observer_.remove(*interest_);
  }
}

void StepMeter::skip_time() {
  last_time_ = options_.clock();
}

void StepMeter::note(const StepResult& result) {
  ARGOSY_CHECK(!stats_.finished, "[observe.step_meter] a step after finish()");
  const double now = options_.clock();
  stats_.seconds += now - last_time_;
  last_time_ = now;
  stats_.waited += observer_.take_waited();
  ++stats_.step;
  ++stats_.steps;
  stats_.samples += result.samples;
  if (result.loss) {
    const double weight = result.samples > 0 ? result.samples : 1;
    stats_.loss_sum += weight * *result.loss;
    stats_.loss_weight += weight;
  }
  if (stats_.step >= next_report_) {
    gather_and_report();
    skip_time();
  }
}

void StepMeter::gather_and_report() {
  stats_.period = observer_.report_period();
  const auto ranks = gather_stats_(stats_);
  last_ = summarize(ranks, options_.total_steps, last_);
  last_.values = observer_.values();
  next_report_ =
      stats_.step + steps_to_next_report(ranks, options_.report_every_steps);
  stats_ = RankStats{.step = stats_.step, .finished = stats_.finished};
  observer_.report(last_);
}

void StepMeter::finish() {
  if (!active_ || stats_.finished) {
    return;
  }
  stats_.finished = true;
  // Ranks may finish after different numbers of steps. Those that are done keep
  // taking part in the reports of the others, which are collective.
  do {
    gather_and_report();
  } while (!last_.finished);
}

} // namespace argosy::observe
