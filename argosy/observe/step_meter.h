#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "argosy/observe/report.h"

namespace argosy::observe {

class Observer;
class Sink;

// Gathers the numbers of all ranks, in rank order. All ranks must call it.
using GatherStats = std::function<std::vector<RankStats>(const RankStats& own)>;

struct StepMeterOptions {
  std::int64_t total_steps = 0; // 0: not known, so no ETA
  std::int64_t first_step = 0;  // steps done before, when training resumes

  // Reports come at multiples of this many steps; 0: as often as the sinks
  // wish, ten times a second on a terminal.
  std::int64_t report_every_steps = 0;

  std::function<double()> clock; // seconds; a steady clock unless given
};

struct StepResult {
  std::optional<double> loss; // of this rank's samples
  double samples = 0;         // of this rank; weighs the loss
};

// Measures training steps and reports them to the observer's sinks.
//
// Ranks gather their numbers when a report is due, and at no other step. The
// constructor asks whether any rank has a sink for reports (one gather): if
// none has, then neither step() nor finish() gather anything. All ranks make
// the same calls; who has fewer steps calls finish() earlier, and waits there.
// Not thread-safe.
class StepMeter {
 public:
  // Without `gather_stats`, the rank reports its own numbers as if it were
  // alone. `observer` must outlive the meter.
  StepMeter(
      Observer& observer,
      StepMeterOptions options,
      GatherStats gather_stats = nullptr);
  ~StepMeter();
  StepMeter(const StepMeter&) = delete;
  StepMeter& operator=(const StepMeter&) = delete;

  // Whether any rank listens.
  bool active() const { return active_; }

  // At the end of each step. Throws what gathering throws.
  void step(const StepResult& result = {}) {
    if (active_) {
      note(result);
    }
  }

  // What passed since the last step, say in validation, is not a step's time.
  void skip_time();

  // After the last step: the last report. Throws what gathering throws.
  void finish();

  const Report& last_report() const { return last_; }

 private:
  void note(const StepResult& result);
  void gather_and_report();

  Observer& observer_;
  const StepMeterOptions options_;
  const GatherStats gather_stats_;
  std::shared_ptr<Sink> interest_; // has this rank measure what others want
  bool active_ = false;
  double last_time_ = 0;
  std::int64_t next_report_ = 0; // the step of it
  RankStats stats_;
  Report last_;
};

} // namespace argosy::observe
