#include "argosy/comm/flight/tick_clock.h"

#include <chrono>

#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

namespace argosy::comm::flight {

namespace {

std::int64_t wall_now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

#if defined(__x86_64__)
// A third of what clock_gettime() takes.
bool counter_is_steady() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  constexpr unsigned kInvariantTsc = 1u << 8;
  return __get_cpuid(0x80000007u, &a, &b, &c, &d) != 0 &&
      (d & kInvariantTsc) != 0;
}

std::uint64_t counter() {
  return __rdtsc();
}
#else
bool counter_is_steady() {
  return false;
}

std::uint64_t counter() {
  return 0;
}
#endif

} // namespace

TickClock::TickClock() : has_counter_(counter_is_steady()), origin_(read()) {}

std::uint64_t TickClock::now() const {
  return has_counter_ ? counter() : static_cast<std::uint64_t>(wall_now_ns());
}

TickClock::Reading TickClock::read() const {
  return {now(), wall_now_ns()};
}

// What is noted lies between the origin and the reading, so their slope serves
// as the counter's rate.
std::int64_t TickClock::wall_us(
    std::uint64_t ticks, const Reading& reading) const {
  const auto ticks_passed = static_cast<double>(reading.ticks - origin_.ticks);
  const auto ns_passed = static_cast<double>(reading.wall_ns - origin_.wall_ns);
  const auto since =
      static_cast<double>(static_cast<std::int64_t>(ticks - origin_.ticks));
  const double ns = ticks_passed > 0 ? since * ns_passed / ticks_passed : 0;
  return (origin_.wall_ns + static_cast<std::int64_t>(ns)) / 1000;
}

} // namespace argosy::comm::flight
