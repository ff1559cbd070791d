#include "argosy/pipeline/synthesis/improve.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <tuple>
#include <utility>

#include "argosy/pipeline/synthesis/critical_path.h"

namespace argosy::pipeline {
namespace {

using Steps = std::vector<Step>;
constexpr double kRefused = std::numeric_limits<double>::infinity();

// Whether `first`, which comes before `second`, must stay before it.
bool must_precede(const Step& first, const Step& second) {
  if (first.chunk != second.chunk) {
    return false;
  }
  if (first.pass == second.pass) {
    return true; // microbatches stay in order
  }
  return first.microbatch == second.microbatch && first.pass < second.pass;
}

void move_step(Steps& steps, std::size_t from, std::size_t to) {
  const auto at = [&](std::size_t i) {
    return steps.begin() + static_cast<std::ptrdiff_t>(i);
  };
  if (from < to) {
    std::rotate(at(from), at(from + 1), at(to + 1));
  } else {
    std::rotate(at(to), at(from), at(from + 1));
  }
}

// A random walk through schedules. A move takes one step to another position on
// its stage; every move costs a simulation of the whole schedule, since it can
// shift all later steps. The price of a schedule is its makespan plus small
// terms for memory and for the ends of the stages. The walk compares prices;
// the best schedule is kept by its makespan.
//
// After a refused move, current_, its price, its peaks and critical_ are as
// before. timeline_ may still belong to the refused schedule; the next
// price_of() overwrites it before anything reads it.
class Walk {
 public:
  Walk(
      const Schedule& start,
      const PartCosts& costs,
      const ImproveOptions& options)
      : current_(start),
        best_(start),
        costs_(costs),
        options_(options),
        random_(options.seed) {
    double all = 0;
    for (int stage = 0; stage < start.stages; ++stage) {
      peaks_.push_back(peak_of(stage));
      all += peaks_.back();
    }
    memory_price_ = all == 0 ? 0 : kMemory / all;
    current_price_ = price_of();
    best_price_ = current_price_;
    best_makespan_ = timeline_.makespan;
    critical_ = critical_path(current_, timeline_);
  }

  Schedule walk() {
    for (std::int64_t i = 0; i < options_.tries; ++i) {
      // Reads the clock rarely, since a try is short.
      if (best_makespan_ <= options_.bound ||
          (i % 64 == 0 && options_.deadline.expired())) {
        break;
      }
      // Simulated annealing: the accepted worsening falls to zero.
      const double left =
          1 - static_cast<double>(i) / static_cast<double>(options_.tries);
      step(kWorse * left * left * best_price_);
    }
    return best_;
  }

 private:
  // The worsening accepted in the beginning, as a fraction of the makespan.
  static constexpr double kWorse = 0.02;
  // Weights of the stages' end times and of memory in the price. They guide the
  // search where the makespan alone does not change.
  static constexpr double kEnds = 1e-3;
  static constexpr double kMemory = 1e-4;

  void step(double worse) {
    const auto [stage, from] = pick_step();
    Steps& steps = current_.steps[stage];
    const std::size_t to = pick_target(steps, from);
    if (to == from) {
      return;
    }
    move_step(steps, from, to);
    // The limit is checked first, since it needs only the steps of this stage.
    const double peak =
        std::exchange(peaks_[stage], peak_of(static_cast<int>(stage)));
    const double price =
        peaks_[stage] <= options_.memory_cap ? price_of() : kRefused;
    // Undo the move.
    if (price > current_price_ + worse || price == kRefused) {
      move_step(steps, to, from);
      peaks_[stage] = peak;
      return;
    }
    current_price_ = price;
    critical_ = critical_path(current_, timeline_);
    // The makespan decides first; the price breaks ties.
    if (std::tie(timeline_.makespan, price) <
        std::tie(best_makespan_, best_price_)) {
      best_price_ = price;
      best_ = current_;
      best_makespan_ = timeline_.makespan;
    }
  }

  // Half of the time, a step on the critical path.
  StepRef pick_step() {
    if (pick(2) == 0) {
      return critical_[pick(critical_.size())];
    }
    const std::size_t stage = pick(current_.steps.size());
    return {stage, pick(current_.steps[stage].size())};
  }

  // A random distance to one side, as far as the order of steps allows.
  std::size_t pick_target(const Steps& steps, std::size_t from) {
    // Mostly short moves, which are accepted more often.
    const std::size_t far = 1 + pick(pick(2) == 0 ? 3 : steps.size());
    std::size_t to = from;
    if (pick(2) == 0) {
      while (to + 1 < steps.size() && to < from + far &&
             !must_precede(steps[from], steps[to + 1])) {
        ++to;
      }
    } else {
      while (to > 0 && to + far > from &&
             !must_precede(steps[to - 1], steps[from])) {
        --to;
      }
    }
    return to;
  }

  double price_of() {
    timeline_ = make_timeline(current_, costs_.times, costs_.message);
    if (!timeline_.finished(current_)) {
      return kRefused;
    }
    double ends = 0;
    for (const auto& spans : timeline_.spans) {
      ends += spans.empty() ? 0 : spans.back().end;
    }
    const double memory = std::accumulate(peaks_.begin(), peaks_.end(), 0.0);
    return timeline_.makespan * (1 + memory_price_ * memory) +
        kEnds * ends / current_.stages;
  }

  double peak_of(int stage) const {
    return stage_peak(current_, stage, costs_.memory, costs_.kept_after_input);
  }

  // Not std::uniform_int_distribution: its results depend on the standard
  // library. The bias of the modulo is negligible for such small counts.
  std::size_t pick(std::size_t count) { return random_() % count; }

  Schedule current_;
  Schedule best_;
  const PartCosts& costs_;
  const ImproveOptions options_;
  std::mt19937_64 random_;
  std::vector<double> peaks_;     // of current_, by stage
  Timeline timeline_;             // of the last price_of()
  std::vector<StepRef> critical_; // of current_
  double memory_price_ = 0;
  double current_price_ = 0;
  double best_price_ = 0;
  double best_makespan_ = kRefused;
};

} // namespace

Schedule improve(
    const Schedule& schedule,
    const PartCosts& costs,
    const ImproveOptions& options) {
  return Walk(schedule, costs, options).walk();
}

} // namespace argosy::pipeline
