#include "argosy/pipeline/synthesize.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <tuple>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/pipeline/schedule.h"
#include "argosy/pipeline/schedules/schedules.h"
#include "argosy/pipeline/synthesis/bounds.h"
#include "argosy/pipeline/synthesis/greedy.h"
#include "argosy/pipeline/synthesis/halves.h"
#include "argosy/pipeline/synthesis/improve.h"
#include "argosy/pipeline/synthesis/tune.h"
#include "argosy/pipeline/verify.h"

namespace argosy::pipeline {
namespace {

struct Candidate {
  Schedule schedule;
  double makespan = 0;
  double memory = 0; // sum of the peaks of all stages
};

constexpr std::size_t kMostCandidates = 64; // kept at a time
// The search starts from this many of the best candidates.
constexpr std::size_t kStarts = 4;
// The meaning of effort 1: this many steps are simulated to improve schedules,
// with at most kTriesPerStep tries per step of the schedule. Tuning rules gets
// the same budget, where a step takes longer.
constexpr double kStepsRun = 15'000'000;
constexpr double kTriesPerStep = 1'000;
constexpr double kStepsTuned = 1'000'000;
constexpr double kTunesPerStep = 100;
constexpr double kMostSeconds = 86'400;
constexpr double kMostEffort = 1e6;

void check_input(const SynthesisInput& input) {
  check_shape(
      {.name = "synthesised",
       .stages = input.stages,
       .microbatches = input.microbatches,
       .chunks = input.chunks});
  ARGOSY_CHECK(
      input.effort >= 0 && input.effort <= kMostEffort,
      "[pipeline.synthesize] effort {}, expected 0 to {}",
      input.effort,
      kMostEffort);
  ARGOSY_CHECK(
      input.seconds >= 0 && input.seconds <= kMostSeconds,
      "[pipeline.synthesize] {} seconds to search in, expected 0 to {}",
      input.seconds,
      kMostSeconds);
  check_costs(input.costs, input.stages * input.chunks);
}

// Schedules without steps, one for each order to consider.
std::vector<Schedule> shapes_of(const SynthesisInput& input) {
  std::vector<Schedule> shapes;
  // Both orders are the same with one chunk or one stage.
  const bool same = input.chunks == 1 || input.stages == 1;
  for (const PartOrder order : {PartOrder::kRound, PartOrder::kV}) {
    if (input.order ? order == *input.order
                    : order == PartOrder::kRound || !same) {
      shapes.push_back(
          {.name = "synthesised",
           .stages = input.stages,
           .microbatches = input.microbatches,
           .chunks = input.chunks,
           .order = order});
    }
  }
  return shapes;
}

std::chrono::nanoseconds nanoseconds(double seconds) {
  return std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9));
}

// Collects candidates (complete schedules that fit the memory limit), then
// improves the best of them. Each shape may spend a quarter of its share of the
// time limit on greedy rules and a quarter on tuning the best rule; improve()
// gets what is left until the deadline of the whole search. Nearly all time
// goes into simulating: each candidate and each try costs one make_timeline().
class Search {
 public:
  Search(const SynthesisInput& input, double cap)
      : input_(input),
        cap_(cap),
        deadline_(Deadline::after(nanoseconds(input.seconds))) {}

  // Returns the makespan; infinity if the schedule exceeds the memory limit.
  double add(Schedule schedule) {
    const auto peaks = peak_memory(
        schedule, input_.costs.memory, input_.costs.kept_after_input);
    if (*std::ranges::max_element(peaks) > cap_) {
      return std::numeric_limits<double>::infinity();
    }
    const double makespan =
        make_timeline(schedule, input_.costs.times, input_.costs.message)
            .makespan;
    const double memory = std::accumulate(peaks.begin(), peaks.end(), 0.0);
    candidates_.push_back({std::move(schedule), makespan, memory});
    if (candidates_.size() > kMostCandidates) {
      keep_best();
    }
    return makespan;
  }

  void add_known(const Schedule& shape) {
    for (const std::string& name : schedule_names()) {
      const bool any_chunks = name == "gpipe" || name == "interleaved";
      Schedule schedule = make_schedule(
          name,
          shape.stages,
          shape.microbatches,
          any_chunks ? shape.chunks : 1);
      if (schedule.chunks == shape.chunks && schedule.order == shape.order) {
        schedule.name = shape.name;
        // Halves give the search more freedom; joined() undoes what is not
        // needed.
        add(halved(std::move(schedule)));
      }
    }
  }

  // Tries as many rules as there is time for, at least one, and tunes the best.
  // `share` of the time limit is for this shape.
  void add_greedy(const Schedule& shape, double share) {
    // Rules and tuning get a quarter of the time each, improve() the rest.
    const auto time = nanoseconds(input_.seconds * share / 4);
    const Deadline rules_end = Deadline::after(time);
    GreedyRule best;
    double least = std::numeric_limits<double>::infinity();
    for (const GreedyRule& rule : greedy_rules(shape)) {
      auto schedule = greedy_schedule(shape, input_.costs, cap_, rule);
      const double makespan = schedule
          ? add(std::move(*schedule))
          : std::numeric_limits<double>::infinity();
      if (makespan < least) {
        least = makespan;
        best = rule;
      }
      // With effort 0 all rules run, so that the result never depends on the
      // clock.
      if (searches() && rules_end.expired()) {
        break;
      }
    }
    // A rule that reaches the lower bound leaves nothing to tune.
    if (searches() && !best.empty() &&
        least > least_makespan(shape, input_.costs)) {
      add_tuned(shape, best, share);
    }
  }

  void add_tuned(const Schedule& shape, const GreedyRule& rule, double share) {
    const double tries = input_.effort * share *
        std::min(kStepsTuned / num_steps(), kTunesPerStep * num_steps());
    const TuneOptions options{
        .memory_cap = cap_,
        .seed = input_.seed,
        .tries = static_cast<std::int64_t>(tries),
        .deadline = Deadline::after(nanoseconds(input_.seconds * share / 4))};
    auto schedule = tune(shape, input_.costs, rule, options);
    if (schedule) {
      add(std::move(*schedule));
    }
  }

  Schedule best() {
    ARGOSY_ASSERT(!candidates_.empty(), "no greedy rule yields a schedule");
    keep_best();
    // Before candidates_ is emptied: num_tries() divides by their number.
    const std::int64_t count = num_tries();
    auto starts = std::exchange(candidates_, {});
    for (std::size_t i = 0; i < starts.size(); ++i) {
      const ImproveOptions options{
          .memory_cap = cap_,
          .bound = least_makespan(starts[i].schedule, input_.costs),
          .seed = input_.seed + i,
          .tries = count,
          // What an earlier candidate did not use is left for later ones.
          .deadline =
              deadline_.earlier(deadline_.remaining() / (starts.size() - i))};
      // improve() returns nothing slower than its start, so the start is
      // dropped.
      add(improve(starts[i].schedule, input_.costs, options));
    }
    ARGOSY_ASSERT(!candidates_.empty(), "the search exceeded the memory cap");
    sort();
    return candidates_[0].schedule;
  }

 private:
  void sort() {
    std::ranges::stable_sort(
        candidates_, [](const Candidate& a, const Candidate& b) {
          return std::tie(a.makespan, a.memory) <
              std::tie(b.makespan, b.memory);
        });
  }

  void keep_best() {
    sort();
    // Equal schedules tie in the sort. A duplicate that another tie separates
    // stays, which only wastes a start.
    const auto last = std::unique(
        candidates_.begin(),
        candidates_.end(),
        [](const Candidate& a, const Candidate& b) {
          return a.schedule == b.schedule;
        });
    candidates_.erase(last, candidates_.end());
    candidates_.resize(std::min(candidates_.size(), kStarts));
  }

  bool searches() const { return input_.effort > 0; }

  // Forward and two halves of backward.
  double num_steps() const {
    return 3.0 * input_.stages * input_.chunks * input_.microbatches;
  }

  // The tries for each candidate.
  std::int64_t num_tries() const {
    const double tries =
        std::min(kStepsRun / num_steps(), kTriesPerStep * num_steps());
    return static_cast<std::int64_t>(
        tries * input_.effort / static_cast<double>(candidates_.size()));
  }

  const SynthesisInput& input_;
  const double cap_;
  const Deadline deadline_;
  std::vector<Candidate> candidates_;
};

void check_cap(
    const SynthesisInput& input, const std::vector<Schedule>& shapes) {
  double least = std::numeric_limits<double>::infinity();
  for (const Schedule& shape : shapes) {
    least = std::min(least, least_cap(shape, input.costs));
  }
  ARGOSY_CHECK(
      input.memory_cap >= least,
      "[pipeline.synthesize] no schedule keeps within {} per stage: one "
      "microbatch in all chunks of a stage takes {}, the least cap that works",
      input.memory_cap,
      least);
}

} // namespace

Schedule synthesize(const SynthesisInput& input) {
  check_input(input);
  const auto shapes = shapes_of(input);
  check_cap(input, shapes);
  // Tolerates rounding errors in sums of memory fractions.
  Search search(input, input.memory_cap * (1 + 1e-9));
  for (const Schedule& shape : shapes) {
    search.add_known(shape);
    if (input.memory_cap >= least_cap(shape, input.costs)) {
      search.add_greedy(shape, 1.0 / static_cast<double>(shapes.size()));
    }
  }
  const Schedule best = joined(search.best(), input.costs);
  verify(best);
  return best;
}

} // namespace argosy::pipeline
