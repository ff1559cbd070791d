#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "argosy/common/deadline.h"

namespace argosy::comm::memory {

struct Counter;
struct Entry;

// How a rank waits for a number in shared memory: it spins for as long as an
// answer from another core takes, gives way for as long as ranks that share our
// core may need it, then sleeps on a futex.
struct WaitPolicy {
  int spins = 4000;
  int yields = 0;
  // Called every `check_interval` of sleep; throws when there is no more hope.
  std::function<void()> check;
  std::chrono::milliseconds check_interval{20};

  // For `num_ranks` ranks on this machine's cores.
  static WaitPolicy for_ranks(int num_ranks);
};

// Returns when `word` has come to `target`; false at the deadline.
bool wait_for(
    std::atomic<std::uint32_t>& word,
    std::atomic<std::uint32_t>& sleepers,
    std::uint32_t target,
    const WaitPolicy& policy,
    Deadline deadline);

// Sets the word and wakes whoever sleeps on it.
void publish(
    std::atomic<std::uint32_t>& word,
    std::atomic<std::uint32_t>& sleepers,
    std::uint32_t value);

// Wakes all, for them to look around.
void wake(std::atomic<std::uint32_t>& word);

} // namespace argosy::comm::memory
