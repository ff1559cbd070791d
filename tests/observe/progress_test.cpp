// The progress line, on a terminal and in a pipe.

#include "argosy/observe/progress_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <thread>

#include "argosy/common/deadline.h"
#include "argosy/common/error.h"
#include "argosy/launch/fd.h"
#include "argosy/observe/observer.h"
#include "argosy/observe/report.h"
#include "argosy/observe/step_meter.h"

namespace argosy::observe {
namespace {

using launch::Fd;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

// Reads to the end in a thread, so that who writes never waits.
class Reader {
 public:
  explicit Reader(Fd fd) : fd_(std::move(fd)), thread_([this] { read(); }) {}

  // Once all writing ends are closed.
  std::string text() {
    thread_.join();
    return text_;
  }

 private:
  void read() {
    std::array<char, 4096> buffer{};
    ssize_t size = 0; // a terminal that is closed reads -1
    while ((size = ::read(fd_.get(), buffer.data(), buffer.size())) > 0) {
      text_.append(buffer.data(), static_cast<std::size_t>(size));
    }
  }

  Fd fd_;
  std::string text_;
  std::thread thread_; // last: uses the others
};

struct Terminal {
  Fd ours;
  Fd theirs;

  explicit Terminal(unsigned short columns) {
    int master = -1;
    int slave = -1;
    winsize size{.ws_row = 24, .ws_col = columns};
    if (::openpty(&master, &slave, nullptr, nullptr, &size) != 0) {
      throw SystemError(with_errno("openpty"));
    }
    ours = Fd(master);
    theirs = Fd(slave);
  }
};

Report report_at(std::int64_t step, bool finished = false) {
  Report report;
  report.step = step;
  report.total_steps = 4;
  report.loss = 0.5;
  report.finished = finished;
  return report;
}

ProgressLine::Options options_for(
    const Fd& fd, std::chrono::duration<double> period) {
  ProgressLine::Options options;
  options.fd = fd.get();
  options.redraw_period = period;
  options.line_period = period;
  return options;
}

TEST(ProgressLine, IsRedrawnOnATerminal) {
  Terminal terminal(80);
  Reader reader(std::move(terminal.ours));
  {
    ProgressLine line(options_for(terminal.theirs, 0ms));
    for (int step = 1; step <= 3; ++step) {
      line.on_report(report_at(step));
    }
    line.on_report(report_at(4, true));
  }
  terminal.theirs.close();
  // The terminal turns the line's end into two characters.
  EXPECT_EQ(
      reader.text(),
      "\rstep 1/4  loss 0.5000\x1b[K"
      "\rstep 2/4  loss 0.5000\x1b[K"
      "\rstep 3/4  loss 0.5000\x1b[K"
      "\rstep 4/4  loss 0.5000\x1b[K\r\n");
}

TEST(ProgressLine, IsCutToTheTerminalsWidth) {
  Terminal terminal(10);
  Reader reader(std::move(terminal.ours));
  {
    ProgressLine line(options_for(terminal.theirs, 0ms));
    line.on_report(report_at(1));
  } // ends the line that it left open
  terminal.theirs.close();
  EXPECT_EQ(reader.text(), "\rstep 1/4 \x1b[K\r\n");
}

TEST(ProgressLine, IsPlainLinesInAPipe) {
  launch::Pipe pipe = launch::make_pipe();
  Reader reader(std::move(pipe.read));
  {
    ProgressLine line(options_for(pipe.write, 0ms));
    line.on_report(report_at(1));
    line.on_report(report_at(4, true));
  }
  pipe.write.close();
  EXPECT_EQ(reader.text(), "step 1/4  loss 0.5000\nstep 4/4  loss 0.5000\n");
}

TEST(ProgressLine, IsWrittenAtMostOncePerPeriod) {
  launch::Pipe pipe = launch::make_pipe();
  Reader reader(std::move(pipe.read));
  {
    ProgressLine line(options_for(pipe.write, 1h));
    for (int step = 1; step <= 3; ++step) {
      line.on_report(report_at(step));
    }
    line.on_report(report_at(4, true)); // always
  }
  pipe.write.close();
  EXPECT_EQ(reader.text(), "step 1/4  loss 0.5000\nstep 4/4  loss 0.5000\n");
}

TEST(ProgressLine, WishesReportsOftenerOnATerminal) {
  const Terminal terminal(80);
  const launch::Pipe pipe = launch::make_pipe();
  ProgressLine::Options options;
  options.fd = terminal.theirs.get();
  EXPECT_EQ(ProgressLine(options).report_period(), 100ms);
  options.fd = pipe.write.get();
  EXPECT_EQ(ProgressLine(options).report_period(), 2s);
}

// Half a second of steps as fast as they go, some of which are drawn.
TEST(ProgressLine, IsDrawnTenTimesASecondByAMeter) {
  Terminal terminal(80);
  Reader reader(std::move(terminal.ours));
  const auto began = std::chrono::steady_clock::now();
  std::chrono::duration<double> took{};
  std::int64_t steps = 0;
  {
    Observer observer;
    ProgressLine::Options options;
    options.fd = terminal.theirs.get();
    observer.add(std::make_shared<ProgressLine>(options));
    StepMeter meter(observer, {});
    const Deadline end = Deadline::after(500ms);
    while (!end.expired()) {
      meter.step({.loss = 1, .samples = 1});
      ++steps;
    }
    meter.finish();
    took = std::chrono::steady_clock::now() - began;
  }
  terminal.theirs.close();
  const std::string text = reader.text();
  const auto draws =
      static_cast<double>(std::count(text.begin(), text.end(), '\x1b'));
  EXPECT_GE(draws, 2); // the first and the last
  EXPECT_LE(draws, took.count() / 0.08 + 2);
  EXPECT_THAT(text, HasSubstr(str("\rstep ", steps, "  loss 1.0000  ")));
  EXPECT_THAT(text, HasSubstr(" samples/s  "));
  EXPECT_THAT(text, ::testing::EndsWith("/step\x1b[K\r\n"));
}

TEST(Redrawn, KeepsTheLastColumnFree) {
  EXPECT_EQ(redrawn("abcdef", 4), "\rabc\x1b[K");
  EXPECT_EQ(redrawn("abc", 4), "\rabc\x1b[K");
  EXPECT_EQ(redrawn("abc", 1), "\r\x1b[K");
}

} // namespace
} // namespace argosy::observe
