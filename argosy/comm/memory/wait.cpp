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

bool wait_for(
    std::atomic<std::uint32_t>& word,
    std::atomic<std::uint32_t>& sleepers,
    std::uint32_t target,
    const WaitPolicy& policy,
    Deadline deadline) {
  for (int i = 0; i < policy.spins; ++i) {
    if (reached(word.load(std::memory_order_acquire), target)) {
      return true;
    }
    _mm_pause();
  }
  for (int i = 0; i < policy.yields; ++i) {
    if (reached(word.load(std::memory_order_acquire), target)) {
      return true;
    }
    ::sched_yield();
  }
  // Told before the last look: the one who publishes reads it after writing.
  sleepers.fetch_add(1, std::memory_order_seq_cst);
  bool there = false;
  for (;;) {
    const std::uint32_t seen = word.load(std::memory_order_seq_cst);
    there = reached(seen, target);
    if (there || deadline.expired()) {
      break;
    }
    if (policy.check) {
      try {
        policy.check();
      } catch (...) {
        sleepers.fetch_sub(1, std::memory_order_relaxed);
        throw;
      }
    }
    futex_wait(word, seen, deadline.remaining(policy.check_interval));
  }
  sleepers.fetch_sub(1, std::memory_order_relaxed);
  return there;
}

void publish(
    std::atomic<std::uint32_t>& word,
    std::atomic<std::uint32_t>& sleepers,
    std::uint32_t value) {
  word.store(value, std::memory_order_seq_cst);
  if (sleepers.load(std::memory_order_seq_cst) != 0) {
    wake(word);
  }
}

void wake(std::atomic<std::uint32_t>& word) {
  ::syscall(
      SYS_futex,
      reinterpret_cast<std::uint32_t*>(&word),
      FUTEX_WAKE,
      INT_MAX,
      nullptr,
      nullptr,
      0);
}

} // namespace argosy::comm::memory
