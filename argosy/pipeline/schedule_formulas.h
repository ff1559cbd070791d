#pragma once

#include <optional>

#include "argosy/pipeline/timeline.h"

// Closed forms for known schedules with p equal stages, m microbatches, v
// chunks and messages that take no time; see docs/pipeline-schedules.md.
// simulate() yields the same values.
namespace argosy::pipeline {

// Returns the bubble rate: the fraction of the makespan that stages idle, when
// every part takes `times`. nullopt if no formula is known: for synthesized
// schedules, for zbh1 with m < p, and for zbv unless all three times are equal.
std::optional<double> bubble_formula(
    const Schedule& schedule, const PartTimes& times = {});

// Returns the largest number of microbatches (counted per part) that `stage`
// keeps at a time. nullopt for a schedule not made by make_schedule().
std::optional<int> peak_formula(const Schedule& schedule, int stage);

} // namespace argosy::pipeline
