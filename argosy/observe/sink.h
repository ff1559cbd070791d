#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

namespace argosy::observe {

struct Report;

// A value of a series. `name` is valid during the call only.
struct Point {
  std::string_view name;
  double value = 0;
  std::int64_t step = 0;
  double time = 0; // Unix time in seconds
};

enum class Activity : std::uint8_t { Compute, Wait };

// A timed section. `name` is valid during the call only.
struct SpanEvent {
  std::string_view name;
  Activity activity = Activity::Compute;
  std::int64_t begin_ns = 0; // Unix time
  std::int64_t end_ns = 0;
  std::uint64_t thread = 0; // identifies the thread within the process
};

enum class Interest : std::uint8_t { Points, Reports, Spans };

inline constexpr std::size_t kNumInterests = 3;

// Receives observations; one thread at a time calls it. A sink must not observe
// anything itself, since the observer's lock is held. A sink that throws is
// removed, with a warning, and training continues.
class Sink {
 public:
  virtual ~Sink() = default;

  // Which events it wants. The answer must not change.
  virtual bool wants(Interest interest) const = 0;

  // How often it wants reports; 0: it takes those that other sinks ask for.
  virtual std::chrono::duration<double> report_period() const {
    return std::chrono::seconds(1);
  }

  virtual void on_point(const Point&) {}
  virtual void on_report(const Report&) {}
  virtual void on_span(const SpanEvent&) {}
};

} // namespace argosy::observe
