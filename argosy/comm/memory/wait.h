#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

#include "argosy/common/deadline.h"

namespace argosy::comm::memory {

struct Signal;

// How a rank waits for a number in shared memory: it spins for as long as
// another core usually takes to answer, yields for as long as ranks that share
// its core may need it, then sleeps on a futex.
struct WaitPolicy {
  int spins = 4000;
  int yields = 0;
  std::chrono::microseconds yield_limit{1000};  // for all of them
  std::chrono::milliseconds check_interval{20}; // of sleep

  // For `num_ranks` ranks on this machine's cores.
  static WaitPolicy for_ranks(int num_ranks);
};

enum class WaitResult { Done, Expired, Hopeless };

// Waits until the signal has reached `target`, until the deadline, or until
// `hopeless`, which it asks before and during sleep, says that it never will.
WaitResult wait_for(
    Signal& signal,
    std::uint32_t target,
    const WaitPolicy& policy,
    const std::function<bool()>& hopeless,
    Deadline deadline);

// Sets the signal and wakes whoever sleeps on it.
void publish(Signal& signal, std::uint32_t value);

// Adds one, for signals that several ranks raise.
void raise(Signal& signal);

} // namespace argosy::comm::memory
