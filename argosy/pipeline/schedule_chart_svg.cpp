#include <algorithm>
#include <sstream>

#include "argosy/common/error.h"
#include "argosy/common/text.h"
#include "argosy/pipeline/schedule_chart.h"
#include "argosy/pipeline/step_text.h"

namespace argosy::pipeline {
namespace {

// In pixels.
constexpr double kLeft = 70;
constexpr double kTop = 56;
constexpr double kRow = 28;
constexpr double kBox = 24;
constexpr double kLegend = 30;
constexpr double kPerStep = 30; // width of a mean step
constexpr double kLetter = 8;   // approximate width of a character
constexpr double kLeast = 620;  // minimum width, for the summary

constexpr const char* kStyle = R"(<style>
svg { background: #ffffff; font: 12px sans-serif }
text { fill: #1f2328 }
.box { text-anchor: middle; fill: #1f2328; font-size: 11px }
rect { stroke: #ffffff }
.F { fill: #9ecbff } .B { fill: #a6e3a1 }
.I { fill: #8fdfe0 } .W { fill: #f5d97a }
.later { stroke: #57606a; stroke-dasharray: 2 2 }
@media (prefers-color-scheme: dark) {
  svg { background: #0d1117 }
  text { fill: #e6edf3 }
  .box { fill: #0d1117 }
  rect { stroke: #0d1117 }
}
</style>
)";

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

void write_text(
    std::ostream& out, double x, double y, const std::string& text) {
  out << "<text x=\"" << x << "\" y=\"" << y << "\">" << escaped(text)
      << "</text>\n";
}

// Scales by the mean step, since the shortest one may be arbitrarily short.
double pixels_per_time(const Schedule& schedule, const Simulation& simulation) {
  std::size_t steps = 0;
  double busy = 0;
  for (int stage = 0; stage < schedule.stages; ++stage) {
    const auto index = static_cast<std::size_t>(stage);
    steps += schedule.steps[index].size();
    busy += (1 - simulation.bubbles[index]) * simulation.makespan;
  }
  return busy == 0 ? 1 : kPerStep * static_cast<double>(steps) / busy;
}

void write_step(
    std::ostream& out,
    const Step& step,
    const Span& span,
    int stage,
    double scale) {
  const double x = kLeft + span.begin * scale;
  const double y = kTop + stage * kRow;
  const double width = (span.end - span.begin) * scale;
  const std::string label = str(step);
  out << "<g><title>" << label << " at stage " << stage << ": " << span.begin
      << " to " << span.end << "</title><rect class=\"" << letter_of(step.pass)
      << (step.chunk > 0 ? " later" : "") << "\" x=\"" << x << "\" y=\"" << y
      << "\" width=\"" << width << "\" height=\"" << kBox << "\" rx=\"3\"/>";
  // A label that does not fit is left to the tooltip.
  if (width >= kLetter * static_cast<double>(label.size())) {
    out << "<text class=\"box\" x=\"" << x + width / 2 << "\" y=\"" << y + 16
        << "\">" << label << "</text>";
  }
  out << "</g>\n";
}

void write_legend(std::ostream& out, double y) {
  constexpr const char* kNames[] = {
      "forward", "backward", "backward of inputs", "backward of weights"};
  double x = kLeft;
  for (int pass = 0; pass < 4; ++pass) {
    const std::string name = kNames[pass];
    out << "<rect class=\"" << letter_of(static_cast<Pass>(pass)) << "\" x=\""
        << x << "\" y=\"" << y << "\" width=\"14\" height=\"14\" rx=\"3\"/>\n";
    write_text(out, x + 18, y + 11, name);
    x += 40 + kLetter * static_cast<double>(name.size());
  }
}

} // namespace

std::string draw_svg(const Schedule& schedule, const Simulation& simulation) {
  const double scale = pixels_per_time(schedule, simulation);
  const double bottom = kTop + schedule.stages * kRow;
  std::ostringstream out;
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\""
      << std::max(kLeast, kLeft + simulation.makespan * scale + 10)
      << "\" height=\"" << bottom + kLegend << "\">\n"
      << kStyle;
  const auto lines = split(summary(schedule, simulation), '\n');
  write_text(out, 10, 20, lines[0]);
  write_text(out, 10, 38, lines[1]);
  for (int stage = 0; stage < schedule.stages; ++stage) {
    const auto index = static_cast<std::size_t>(stage);
    write_text(out, 10, kTop + stage * kRow + 16, str("stage ", stage));
    for (std::size_t i = 0; i < schedule.steps[index].size(); ++i) {
      write_step(
          out,
          schedule.steps[index][i],
          simulation.spans[index][i],
          stage,
          scale);
    }
  }
  write_legend(out, bottom + 8);
  out << "</svg>\n";
  return out.str();
}

} // namespace argosy::pipeline
