#pragma once

#include <optional>
#include <vector>

#include "argosy/pipeline/part_costs.h"

namespace argosy::pipeline {

// How a stage chooses among the steps that it could run next.
struct StageRule {
  int ahead = 0; // limit of microbatches it keeps; then forwards wait
  bool forward_first = false; // forwards before backwards of inputs
  bool weight_first = false;  // backwards of weights before forwards
  bool deep_first = false;    // later chunks before earlier ones
  // A backward of weights runs while the stage waits, if the wait is longer
  // than this fraction of its time.
  double patience = 0;
};

using GreedyRule = std::vector<StageRule>; // by stage

// All rules worth trying, those without a limit first.
std::vector<GreedyRule> greedy_rules(const Schedule& shape);

// Simulates the parts of `shape`, which has no steps, and always runs the step
// that the rule prefers. Memory of a stage never exceeds `memory_cap`, which
// must hold one microbatch. Returns nullopt if the rule deadlocks, which cannot
// happen if `ahead` sets no limit.
std::optional<Schedule> greedy_schedule(
    const Schedule& shape,
    const PartCosts& costs,
    double memory_cap,
    const GreedyRule& rule);

} // namespace argosy::pipeline
