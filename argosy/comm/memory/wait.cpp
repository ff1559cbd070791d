#include "argosy/comm/memory/wait.h"

#include <immintrin.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>
#include <thread>

#include "argosy/comm/memory/layout.h"

namespace argosy::comm::memory {

namespace {

// Not FUTEX_PRIVATE: the word may lie in memory that processes share.
void futex_wait(
    std::atomic<std::uint32_t>& word,
    std::uint32_t seen,
    std::chrono::milliseconds limit) {
  const timespec time{limit.count() / 1000, (limit.count() % 1000) * 1000000L};
  ::syscall(
      SYS_futex,
      reinterpret_cast<std::uint32_t*>(&word),
      FUTEX_WAIT,
      seen,
      &time,
      nullptr,
      0);
}

} // namespace

WaitPolicy WaitPolicy::for_ranks(int num_ranks) {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  if (num_ranks <= cores) {
    return {.spins = 4000, .yields = 20};
  }
  return {.spins = 100, .yields = 200};
}

namespace {

bool there(const Signal& signal, std::uint32_t target) {
  return reached(signal.value.load(std::memory_order_seq_cst), target);
}

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
    futex_wait(signal.value, seen, deadline.remaining(policy.check_interval));
  }
}

void wake_sleepers(Signal& signal) {
  if (signal.sleepers.load(std::memory_order_seq_cst) != 0) {
    ::syscall(
        SYS_futex,
        reinterpret_cast<std::uint32_t*>(&signal.value),
        FUTEX_WAKE,
        INT_MAX,
        nullptr,
        nullptr,
        0);
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
  for (int i = 0; i < policy.yields; ++i) {
    if (reached(signal.value.load(std::memory_order_acquire), target)) {
      return WaitResult::Done;
    }
    ::sched_yield();
  }
  // Told before the last look: the one who publishes reads it after writing.
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
