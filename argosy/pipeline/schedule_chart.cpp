#include "argosy/pipeline/schedule_chart.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <iomanip>
#include <limits>
#include <sstream>

#include "argosy/common/error.h"
#include "argosy/common/text.h"
#include "argosy/pipeline/step_text.h"

namespace argosy::pipeline {
namespace {

// The background of each pass, as one of the terminal's 256 colors.
int color_of(Pass pass) {
  switch (pass) {
    case Pass::kForward:
      return 153;
    case Pass::kBackward:
      return 157;
    case Pass::kBackwardInput:
      return 159;
    case Pass::kBackwardWeight:
      return 229;
  }
  return 0;
}

std::string label_of(const Schedule& schedule, const Step& step) {
  // With two chunks, the case of the letter tells them apart, which keeps
  // labels short.
  if (schedule.chunks != 2) {
    return str(step);
  }
  std::string label = str(Step{step.pass, 0, step.microbatch});
  if (step.chunk == 1) {
    label[0] =
        static_cast<char>(std::tolower(static_cast<unsigned char>(label[0])));
  }
  return label;
}

double shortest(const Simulation& simulation) {
  double result = std::numeric_limits<double>::infinity();
  for (const auto& spans : simulation.spans) {
    for (const Span& span : spans) {
      if (span.end > span.begin) {
        result = std::min(result, span.end - span.begin);
      }
    }
  }
  return result;
}

// Draws a stage per line. A column stands for the time unit_: the shortest
// step, so that each step has at least one column, or longer if the chart would
// exceed its limit of columns; then short steps may vanish. Every column has
// the width of the longest label and a space.
class TextDrawing {
 public:
  TextDrawing(
      const Schedule& schedule,
      const Simulation& simulation,
      const DrawOptions& options)
      : schedule_(schedule), simulation_(simulation), options_(options) {
    unit_ = std::max(
        shortest(simulation), simulation.makespan / options.most_columns);
    const Step widest{
        Pass::kForward, schedule.chunks - 1, schedule.microbatches - 1};
    width_ = label_of(schedule, widest).size() + 1;
  }

  void draw_stage(std::ostream& out, int stage) const {
    const auto index = static_cast<std::size_t>(stage);
    out << "stage " << std::left << std::setw(stage_digits()) << stage << " ";
    std::size_t column = 0;
    std::string line;
    for (std::size_t i = 0; i < schedule_.steps[index].size(); ++i) {
      const Span& span = simulation_.spans[index][i];
      for (; column < column_of(span.begin); ++column) {
        line += padded(".", width_, ' ');
      }
      // Counted from rounded times, so that rounding errors do not add up and
      // stages stay aligned.
      const std::size_t columns = column_of(span.end) - column;
      line += box(schedule_.steps[index][i], columns);
      column += columns;
    }
    out << line.substr(0, line.find_last_not_of(' ') + 1) << "\n";
  }

  void draw_legend(std::ostream& out) const {
    out << "F forward, B backward, I of inputs, W of weights";
    if (schedule_.chunks == 2) {
      out << "; lower case: chunk 1";
    } else if (schedule_.chunks > 2) {
      out << "; behind the dot: the chunk";
    }
    out << "; a column is " << unit_ << "\n";
  }

 private:
  int stage_digits() const {
    return static_cast<int>(str(schedule_.stages - 1).size());
  }

  std::size_t column_of(double time) const {
    return static_cast<std::size_t>(std::llround(time / unit_));
  }

  static std::string padded(std::string text, std::size_t width, char with) {
    text.resize(std::max(text.size(), width), with);
    return text;
  }

  // Fills a step of several columns with dashes.
  std::string box(const Step& step, std::size_t columns) const {
    if (columns == 0) {
      return "";
    }
    const char fill = columns > 1 ? '-' : ' ';
    const std::string text =
        padded(label_of(schedule_, step), columns * width_ - 1, fill);
    if (!options_.color) {
      return text + ' ';
    }
    return str("\033[30;48;5;", color_of(step.pass), "m", text, "\033[0m ");
  }

  const Schedule& schedule_;
  const Simulation& simulation_;
  const DrawOptions options_;
  double unit_ = 1;
  std::size_t width_ = 0;
};

} // namespace

std::string summary(const Schedule& schedule, const Simulation& simulation) {
  std::ostringstream out;
  out << schedule.name << ": " << schedule.stages << " stages, "
      << schedule.microbatches << " microbatches";
  if (schedule.chunks > 1) {
    out << ", " << schedule.chunks << " chunks "
        << (schedule.order == PartOrder::kV ? "in a V" : "in rounds");
  }
  std::vector<std::string> peaks;
  for (const double peak : simulation.peak_activations) {
    peaks.push_back(str(peak));
  }
  out << "\nmakespan " << simulation.makespan << ", bubble " << std::fixed
      << std::setprecision(1) << 100 * simulation.bubble_rate
      << " %, peak activations by stage " << join(peaks, " ") << "\n";
  return out.str();
}

std::string draw_text(
    const Schedule& schedule,
    const Simulation& simulation,
    const DrawOptions& options) {
  std::ostringstream out;
  out << summary(schedule, simulation);
  const TextDrawing drawing(schedule, simulation, options);
  for (int stage = 0; stage < schedule.stages; ++stage) {
    drawing.draw_stage(out, stage);
  }
  drawing.draw_legend(out);
  return out.str();
}

} // namespace argosy::pipeline
