#include "argosy/comm/memory/wait.h"

#include <immintrin.h>
#include <sched.h>

#include <thread>

#include "argosy/comm/memory/layout.h"
#include "argosy/common/futex.h"

namespace argosy::comm::memory {

// With a core for each rank, spinning is the fastest way to see an answer. With
// more ranks than cores, it takes the core from the rank that we wait for, so
// yielding comes as soon as a rank on another core could have answered, which
// takes some 100 ns, and lasts.
WaitPolicy WaitPolicy::for_ranks(int num_ranks) {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  if (num_ranks <= cores) {
    return {.spins = 4000, .yields = 20};
  }
  return {.spins = 10, .yields = 200};
}

namespace {

bool there(const Signal& signal, std::uint32_t target) {
  return reached(signal.value.load(std::memory_order_seq_cst), target);
}

// Returns whether the signal arrived. Yields are short where only ranks share
// the core. Where other processes compete for it, each may last as long as the
// time slices of all of them, and a sleeper would get the core back sooner: so
// their time is limited, too.
bool yield_for(Signal& signal, std::uint32_t target, const WaitPolicy& policy) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + policy.yield_limit;
  for (int i = 0; i < policy.yields; ++i) {
    if (reached(signal.value.load(std::memory_order_acquire), target)) {
      return true;
    }
    ::sched_yield();
    if (Clock::now() > end) {
      return false;
    }
  }
  return false;
}

// Nothing wakes a sleeper when the group fails or a process dies, so it wakes
// by itself every check_interval and asks `hopeless`.
WaitResult sleep_for(
    Signal& signal,
    std::uint32_t target,
    const WaitPolicy& policy,
    const std::function<bool()>& hopeless,
    Deadline deadline) {
  for (;;) {
    const std::uint32_t seen = signal.value.load(std::memory_order_seq_cst);
    if (reached(seen, target)) {
      return WaitResult::Done;
    }
    const bool lost = hopeless();
    if (lost || deadline.expired()) {
      // A rank may have raised the signal just before it went away.
      return there(signal, target) ? WaitResult::Done
          : lost                   ? WaitResult::Hopeless
                                   : WaitResult::Expired;
    }
    // Returns at once if the value is no longer `seen`: no wake-up is lost.
    futex_wait(signal.value, seen, deadline.remaining(policy.check_interval));
  }
}

// Most signals find nobody asleep; the count saves them the system call.
void wake_sleepers(Signal& signal) {
  if (signal.sleepers.load(std::memory_order_seq_cst) != 0) {
    futex_wake(signal.value);
  }
}

} // namespace

WaitResult wait_for(
    Signal& signal,
    std::uint32_t target,
    const WaitPolicy& policy,
    const std::function<bool()>& hopeless,
    Deadline deadline) {
  for (int i = 0; i < policy.spins; ++i) {
    if (reached(signal.value.load(std::memory_order_acquire), target)) {
      return WaitResult::Done;
    }
    _mm_pause();
  }
  if (yield_for(signal, target, policy)) {
    return WaitResult::Done;
  }
  // Counted before sleep_for() looks again: publish() writes the value, then
  // reads the count, so one of the two sees the other (hence seq_cst).
  signal.sleepers.fetch_add(1, std::memory_order_seq_cst);
  const WaitResult result =
      sleep_for(signal, target, policy, hopeless, deadline);
  signal.sleepers.fetch_sub(1, std::memory_order_relaxed);
  return result;
}

void publish(Signal& signal, std::uint32_t value) {
  signal.value.store(value, std::memory_order_seq_cst);
  wake_sleepers(signal);
}

void raise(Signal& signal) {
  signal.value.fetch_add(1, std::memory_order_seq_cst);
  wake_sleepers(signal);
}

} // namespace argosy::comm::memory
