#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "argosy/observe/sink.h"

namespace argosy::observe {

// Reports for a person. On a terminal one line that is redrawn, else plain
// lines, each at most so often. The last report is always written. Meant for
// one rank: reports are about all.
class ProgressLine : public Sink {
 public:
  struct Options {
    int fd = 2;                     // not owned
    std::vector<std::string> shown; // gauges and counters to append
    std::chrono::duration<double> redraw_period =
        std::chrono::milliseconds(100);
    std::chrono::duration<double> line_period = std::chrono::seconds(2);
  };

  ProgressLine() : ProgressLine(Options()) {}
  explicit ProgressLine(Options options);

  // Ends the line that is drawn.
  ~ProgressLine() override;
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  bool wants(Interest interest) const override;
  std::chrono::duration<double> report_period() const override;
  void on_report(const Report& report) override;

 private:
  void write(const std::string& text);
  bool is_due(const Report& report);

  const Options options_;
  const bool terminal_;
  bool line_open_ = false;
  bool written_ = false;
  std::chrono::steady_clock::time_point last_;
};

// What shows `text` in the place of the line before it: cut to `columns`, as a
// line that wraps cannot be redrawn.
std::string redrawn(const std::string& text, std::size_t columns);

} // namespace argosy::observe
