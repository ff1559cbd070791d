#pragma once

#include <string>

#include "argosy/pipeline/simulate.h"

// Schedules for people. The simulation is that of the schedule.
namespace argosy::pipeline {

// Two lines: which schedule of what, its makespan, bubble rate, and the peaks
// of activations by stage.
std::string summary(const Schedule& schedule, const Simulation& simulation);

struct DrawOptions {
  bool color = false;     // with the escapes of terminals
  int most_columns = 400; // steps may be too short for one
};

// The summary, then a line for each stage, a column as long as the shortest
// step: F, B, I or W (see step_text.h) with the microbatch, lower case for the
// second of two chunks, dots where the stage idles.
std::string draw_text(
    const Schedule& schedule,
    const Simulation& simulation,
    const DrawOptions& options = {});

// A picture that needs no other file, for light and dark: a box for each step
// which says its times when the pointer rests on it.
std::string draw_svg(const Schedule& schedule, const Simulation& simulation);

} // namespace argosy::pipeline
