#pragma once

#include <chrono>
#include <cstdint>

namespace argosy::rpc {

// How long a thread should look for an answer before it sleeps. It learns: a
// spin that was worth it lengthens the next, a vain one shortens it, so that a
// thread whose peers are slow or idle does not burn time. When even the longest
// spin is in vain and the answer comes soon after, the peer probably waits for
// this very CPU: then it sleeps at once for a while, for longer each time.
// Never spins on one CPU.
class SpinBudget {
 public:
  SpinBudget();

  // Calls `there` until it returns true (then returns true) or the budget is
  // used up.
  template <typename There>
  bool spin(const There& there) {
    if (limit_ == std::chrono::nanoseconds::zero()) {
      return there();
    }
    const auto end = Clock::now() + limit_;
    do {
      for (int i = 0; i < kLooks; ++i) {
        if (there()) {
          found();
          return true;
        }
        pause();
      }
    } while (Clock::now() < end);
    missed();
    return false;
  }

  // After a sleep: one that was shorter than a spin should have been a spin.
  void slept(std::chrono::nanoseconds time);

  std::chrono::nanoseconds limit() const { return limit_; }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr int kLooks = 16; // between looks at the clock

  static void pause();
  void found();
  void missed();

  const bool possible_;
  std::chrono::nanoseconds limit_;
  int sleeps_in_a_row_;        // after the next long spin in vain
  int sleeps_left_ = 0;        // before a short sleep lengthens the spin again
  bool tried_longest_ = false; // in vain, right before
};

} // namespace argosy::rpc
