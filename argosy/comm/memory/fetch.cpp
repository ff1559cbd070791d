#include "argosy/comm/memory/fetch.h"

#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "argosy/comm/memory/layout.h"

namespace argosy::comm::memory {

namespace {

using Transfer = ssize_t (*)(
    pid_t,
    const iovec*,
    unsigned long,
    const iovec*,
    unsigned long,
    unsigned long);

// The kernel may move less than asked; the loop asks for the rest. On failure,
// errno is the kernel's: Peers::throw_unreachable() reads it.
bool transfer(
    Transfer call,
    pid_t process,
    void* here,
    std::uint64_t there,
    std::size_t bytes) {
  auto* at = static_cast<std::byte*>(here);
  while (bytes > 0) {
    const iovec local{at, bytes};
    const iovec remote{reinterpret_cast<void*>(there), bytes};
    const ssize_t moved = call(process, &local, 1, &remote, 1, 0);
    if (moved <= 0) {
      return false;
    }
    at += moved;
    there += static_cast<std::uint64_t>(moved);
    bytes -= static_cast<std::size_t>(moved);
  }
  return true;
}

// Long enough that the fixed cost of a system call does not decide, short
// enough to stay in a core's cache.
constexpr std::size_t kTrialBytes = std::size_t{32} << 10;
constexpr std::size_t kTrials = 3; // of each way; the best counts
static_assert(2 * kTrials * kTrialBytes <= kWindowBytes);

// The best time of act(0), ..., act(kTrials - 1).
template <typename Act>
std::chrono::nanoseconds best_time(const Act& act) {
  using Clock = std::chrono::steady_clock;
  auto best = Clock::duration::max();
  for (std::size_t trial = 0; trial < kTrials; ++trial) {
    const auto began = Clock::now();
    act(trial);
    best = std::min(best, Clock::now() - began);
  }
  return best;
}

} // namespace

bool fetch_from(
    pid_t process, void* to, std::uint64_t from, std::size_t bytes) {
  return transfer(::process_vm_readv, process, to, from, bytes);
}

bool store_to(
    pid_t process, std::uint64_t to, const void* from, std::size_t bytes) {
  return transfer(
      ::process_vm_writev, process, const_cast<void*>(from), to, bytes);
}

// Yama's ptrace_scope 1 allows access to descendants only. PR_SET_PTRACER also
// admits the descendants of the named process, so naming the parent, usually
// the launcher, admits all ranks that it started.
void let_siblings_fetch() {
  const pid_t parent = ::getppid();
  if (parent > 1) { // all are descendants of the first process
    ::prctl(PR_SET_PTRACER, parent, 0, 0, 0);
  }
}

// Reads a word whose value is known. In another PID namespace the number could
// be that of an unrelated process, whose memory would differ.
bool can_fetch(pid_t process, const Control& control) {
  std::uint64_t self = 0;
  return fetch_from(process, &self, control.self, sizeof(self)) &&
      self == control.self;
}

// The lines are then in the cache of the owner's core, as those of a window
// that it has just filled.
void fill_for_trials(Region& region) {
  std::memset(region.windows[0], 1, 2 * kTrials * kTrialBytes);
}

// Each trial takes lines that this core has not seen yet.
bool is_fetch_faster(pid_t process, const Region& region) {
  const std::byte* window = region.windows[0];
  const auto* self = reinterpret_cast<const std::byte*>(&region.control.self);
  const std::uint64_t theirs =
      region.control.self + static_cast<std::uint64_t>(window - self);
  std::vector<std::byte> from(kTrialBytes, std::byte{1});
  std::vector<std::byte> to(kTrialBytes, std::byte{2});
  for (std::size_t at = 0; at < kTrials * kTrialBytes; at += kPage) {
    const volatile std::byte touched = window[at]; // maps the page
    static_cast<void>(touched);
  }
  const auto fill = best_time([&](std::size_t) {
    std::memcpy(to.data(), from.data(), kTrialBytes);
    // Nobody reads the copy, and the compiler must not know.
    asm volatile("" : : "r"(to.data()) : "memory");
  });
  const auto take = best_time([&](std::size_t trial) {
    std::memcpy(to.data(), window + trial * kTrialBytes, kTrialBytes);
    asm volatile("" : : "r"(to.data()) : "memory");
  });
  bool works = true;
  const auto fetch = best_time([&](std::size_t trial) {
    works = fetch_from(
                process,
                to.data(),
                theirs + (kTrials + trial) * kTrialBytes,
                kTrialBytes) &&
        works;
  });
  return works && fetch <= fill + take;
}

} // namespace argosy::comm::memory
