#include "argosy/observe/progress_line.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <utility>

#include "argosy/common/error.h"
#include "argosy/launch/fd.h"
#include "argosy/observe/report.h"
#include "argosy/observe/report_text.h"

namespace argosy::observe {

namespace {

std::size_t columns_of(int fd) {
  winsize size{};
  constexpr std::size_t kUsual = 80;
  return ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col
                                                                : kUsual;
}

} // namespace

std::string redrawn(const std::string& text, std::size_t columns) {
  // Leaves the last column free: some terminals wrap when it is filled.
  return str("\r", text.substr(0, columns - 1), "\x1b[K");
}

ProgressLine::ProgressLine(Options options)
    : options_(std::move(options)), terminal_(::isatty(options_.fd) == 1) {}

ProgressLine::~ProgressLine() {
  if (line_open_) {
    // What the terminal shows next must not overwrite the last state.
    launch::write_all(options_.fd, "\n", 1);
  }
}

bool ProgressLine::wants(Interest interest) const {
  return interest == Interest::Reports;
}

std::chrono::duration<double> ProgressLine::report_period() const {
  return terminal_ ? options_.redraw_period : options_.line_period;
}

bool ProgressLine::is_due(const Report& report) {
  const auto now = std::chrono::steady_clock::now();
  // Reports aim at the period, so some arrive slightly early.
  constexpr double kEarly = 0.8;
  if (written_ && !report.finished && now - last_ < kEarly * report_period()) {
    return false;
  }
  written_ = true;
  last_ = now;
  return true;
}

void ProgressLine::on_report(const Report& report) {
  if (!is_due(report)) {
    return;
  }
  const std::string text = report_text(report, options_.shown);
  if (!terminal_) {
    write(text + "\n");
    return;
  }
  write(redrawn(text, columns_of(options_.fd)) + (report.finished ? "\n" : ""));
  line_open_ = !report.finished;
}

void ProgressLine::write(const std::string& text) {
  if (!launch::write_all(options_.fd, text.data(), text.size())) {
    // The destructor must not write to it again.
    line_open_ = false;
    throw SystemError("[observe.progress_line] the output is closed");
  }
}

} // namespace argosy::observe
