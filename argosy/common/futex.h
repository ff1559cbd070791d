#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>
#include <ctime>

// Sleeping on a word that another thread changes. The word may lie in memory
// that processes share. Not installed.
namespace argosy {

// Sleeps until futex_wake(), at most for `limit`, if the word is `seen`. May
// also wake without a reason.
inline void futex_wait(
    std::atomic<std::uint32_t>& word,
    std::uint32_t seen,
    std::chrono::nanoseconds limit) {
  const timespec time{limit.count() / 1000000000, limit.count() % 1000000000};
  ::syscall(
      SYS_futex,
      reinterpret_cast<std::uint32_t*>(&word),
      FUTEX_WAIT,
      seen,
      &time,
      nullptr,
      0);
}

// Wakes all who sleep on the word.
inline void futex_wake(std::atomic<std::uint32_t>& word) {
  ::syscall(
      SYS_futex,
      reinterpret_cast<std::uint32_t*>(&word),
      FUTEX_WAKE,
      INT_MAX,
      nullptr,
      nullptr,
      0);
}

} // namespace argosy
