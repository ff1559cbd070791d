#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

namespace argosy::observe {

struct Report;

// A value of a series. The name is valid during the call that gives it.
struct Point {
  std::string_view name;
  double value = 0;
  std::int64_t step = 0;
  double time = 0; // seconds since 1970
};

enum class Activity : std::uint8_t { Compute, Wait };

// Something that took time. The name is valid during the call that gives it.
struct Stretch {
  std::string_view name;
  Activity activity = Activity::Compute;
  std::int64_t begin_ns = 0; // since 1970
  std::int64_t end_ns = 0;
  std::uint64_t thread = 0; // differs between threads of the process
};

enum class Interest : std::uint8_t { Points, Reports, Stretches };

inline constexpr std::size_t kNumInterests = 3;

// Where observations go. One thread at a time calls it. A sink must not
// observe, as its observer is held; one that throws is warned about and called
// no more, so that training goes on.
class Sink {
 public:
  virtual ~Sink() = default;

  // What it wants to be given; the same answer always.
  virtual bool wants(Interest interest) const = 0;

  // How often it would have reports; 0 for who takes what others asked for.
  virtual std::chrono::duration<double> report_period() const {
    return std::chrono::seconds(1);
  }

  virtual void on_point(const Point&) {}
  virtual void on_report(const Report&) {}
  virtual void on_stretch(const Stretch&) {}
};

} // namespace argosy::observe
