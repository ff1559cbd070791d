#include "argosy/rpc/spin.h"

#include <sched.h>

#include <algorithm>
#include <utility>

namespace argosy::rpc {

namespace {

constexpr std::chrono::nanoseconds kLongestSpin = std::chrono::microseconds(40);
constexpr std::chrono::nanoseconds kShortestSpin = std::chrono::microseconds(2);

// Sleeps before the next try when the peer needs this CPU: twice as many each
// time that it still does.
constexpr int kFewestSleeps = 100;
constexpr int kMostSleeps = 100 << 3;

bool has_several_cpus() {
  cpu_set_t cpus;
  return ::sched_getaffinity(0, sizeof(cpus), &cpus) == 0 &&
      CPU_COUNT(&cpus) > 1;
}

} // namespace

SpinBudget::SpinBudget()
    : possible_(has_several_cpus()),
      limit_(possible_ ? kLongestSpin : std::chrono::nanoseconds::zero()),
      sleeps_in_a_row_(kFewestSleeps) {}

void SpinBudget::pause() {
  __builtin_ia32_pause();
}

void SpinBudget::found() {
  sleeps_in_a_row_ = kFewestSleeps;
  limit_ = std::min(limit_ * 2, kLongestSpin);
}

void SpinBudget::missed() {
  tried_longest_ = limit_ == kLongestSpin;
  limit_ = std::max(limit_ / 2, kShortestSpin);
}

void SpinBudget::slept(std::chrono::nanoseconds time) {
  const bool tried_longest = std::exchange(tried_longest_, false);
  if (!possible_ || time > kLongestSpin) {
    return;
  }
  if (tried_longest) {
    limit_ = std::chrono::nanoseconds::zero();
    sleeps_left_ = sleeps_in_a_row_;
    sleeps_in_a_row_ = std::min(2 * sleeps_in_a_row_, kMostSleeps);
  } else if (sleeps_left_ > 0) {
    --sleeps_left_;
  } else {
    limit_ = kLongestSpin;
  }
}

} // namespace argosy::rpc
