#pragma once

#include <optional>
#include <vector>

#include "argosy/pipeline/costs.h"

namespace argosy::pipeline {

// How a stage chooses when it could go on with several steps.
struct StageRule {
  int ahead = 0; // microbatches of its parts it keeps; then forwards wait
  bool forward_first = false; // before backwards of inputs
  bool weight_first = false;  // before forwards
  bool deep_first = false;    // later chunks before earlier ones
  // Backwards of weights fill the time until the next step can begin, if it is
  // longer than this share of theirs.
  double patience = 0;
};

using GreedyRule = std::vector<StageRule>; // by stage

// All rules worth a try, those without a limit first.
std::vector<GreedyRule> greedy_rules(const Schedule& shape);

// Runs the parts of `shape`, whose steps are empty, taking at each moment the
// step that the rule prefers. What a stage keeps never exceeds `memory_cap`;
// the cap has room for one microbatch. None when the rule leads nowhere, which
// it never does when `ahead` is no limit.
std::optional<Schedule> greedy_schedule(
    const Schedule& shape,
    const Costs& costs,
    double memory_cap,
    const GreedyRule& rule);

} // namespace argosy::pipeline
