#include "argosy/pipeline/synthesis/tune.h"

#include <algorithm>
#include <limits>
#include <random>

namespace argosy::pipeline {
namespace {

void change(StageRule& rule, int chunks, std::mt19937_64& random) {
  switch (random() % 5) {
    case 0:
      rule.ahead += 1 + static_cast<int>(random() % 2);
      break;
    case 1:
      rule.ahead =
          std::max(chunks, rule.ahead - 1 - static_cast<int>(random() % 2));
      break;
    case 2:
      rule.patience = 0.25 * static_cast<double>(random() % 5);
      break;
    case 3:
      rule.forward_first = !rule.forward_first;
      break;
    default:
      bool& flag = random() % 2 == 0 ? rule.weight_first : rule.deep_first;
      flag = !flag;
  }
}

} // namespace

std::optional<Schedule> tune(
    const Schedule& shape,
    const PartCosts& costs,
    GreedyRule rule,
    const TuneOptions& options) {
  std::mt19937_64 random(options.seed);
  std::optional<Schedule> best;
  // The given rule is not run again: its caller keeps its schedule. So the
  // first changed rule that yields a schedule replaces it, even if slower.
  double least = std::numeric_limits<double>::infinity();
  for (std::int64_t i = 0; i < options.tries; ++i) {
    if (options.deadline.expired()) {
      break;
    }
    GreedyRule other = rule;
    for (std::uint64_t count = random() % 2 + 1; count > 0; --count) {
      change(other[random() % other.size()], shape.chunks, random);
    }
    auto schedule = greedy_schedule(shape, costs, options.memory_cap, other);
    const double makespan = schedule
        ? make_timeline(*schedule, costs.times, costs.message).makespan
        : std::numeric_limits<double>::infinity();
    if (schedule && makespan <= least) {
      // Accepts equal makespans too, to get across plateaus.
      rule = std::move(other);
      least = makespan;
      best = std::move(schedule);
    }
  }
  return best;
}

} // namespace argosy::pipeline
