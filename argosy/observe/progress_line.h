#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "argosy/observe/sink.h"

namespace argosy::observe {

// Shows reports to a person: on a terminal as one line that is redrawn,
// otherwise as separate lines, both at limited rates. The last report is always
// shown. Use it on one rank, since reports cover all ranks.
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

  // Ends the current line.
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

// Returns the escape codes that show `text` instead of the previous line,
// truncated to `columns`, because a wrapped line cannot be redrawn.
std::string redrawn(const std::string& text, std::size_t columns);

} // namespace argosy::observe
