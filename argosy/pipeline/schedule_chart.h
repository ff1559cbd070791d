#pragma once

#include <string>

#include "argosy/pipeline/simulate.h"

// Charts of schedules. `simulation` must be that of the schedule.
namespace argosy::pipeline {

// Two lines: the schedule's name and size, its makespan and bubble rate, and
// the peak activations by stage.
std::string summary(const Schedule& schedule, const Simulation& simulation);

struct DrawOptions {
  bool color = false;     // use terminal escape codes
  int most_columns = 400; // limits the width of the chart
};

// Returns the summary and one line per stage. A column is as long as the
// shortest step. A step shows as F, B, I or W (see step_text.h) with its
// microbatch, in lower case for the second of two chunks; dots mark idle time.
std::string draw_text(
    const Schedule& schedule,
    const Simulation& simulation,
    const DrawOptions& options = {});

// Returns a self-contained SVG for light and dark backgrounds: a box per step,
// with its times as a tooltip.
std::string draw_svg(const Schedule& schedule, const Simulation& simulation);

} // namespace argosy::pipeline
