#pragma once

#include <optional>

#include "argosy/pipeline/replay.h"

// What is known of the schedules without running them, for p equal stages, m
// microbatches, v chunks, and messages that take no time
// (docs/pipeline-schedules.md). simulate() finds the same.
namespace argosy::pipeline {

// The share of the makespan in which stages idle, when every part takes
// `times`. None when no formula is known: for a synthesised schedule; for zbh1
// with m < p and zbv unless all three times are the same.
std::optional<double> bubble_formula(
    const Schedule& schedule, const PartTimes& times = {});

// How many microbatches of its parts `stage` keeps at most. None for a
// schedule that is not one of make_schedule().
std::optional<int> peak_formula(const Schedule& schedule, int stage);

} // namespace argosy::pipeline
