// A library for LD_PRELOAD that makes the wall clock of a process jump, by
// seconds, hours and years, forward and back, twenty times a second. The steady
// clocks go on as they do.

#include <sys/syscall.h>
#include <sys/time.h>
#include <ctime>
#include <iterator>

#include <unistd.h>

namespace {

// The kernel's, not the one that this library replaces.
int real_time_of(clockid_t clock, timespec* out) {
  return static_cast<int>(::syscall(SYS_clock_gettime, clock, out));
}

std::time_t jump() {
  constexpr std::time_t kHour = 3600;
  constexpr std::time_t kJumps[] = {
      0, kHour, -24 * kHour, 2, 24 * 365 * kHour, -1, -kHour, 30 * 24 * kHour};
  timespec steady{};
  real_time_of(CLOCK_MONOTONIC, &steady);
  const auto step = static_cast<unsigned long>(
      steady.tv_sec * 20 + steady.tv_nsec / 50'000'000);
  return kJumps[step * 2654435761UL / 65536 % std::size(kJumps)];
}

} // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* out) {
  const int result = real_time_of(clock, out);
  if (result == 0 &&
      (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
    out->tv_sec += jump();
  }
  return result;
}

int gettimeofday(timeval* out, void*) {
  timespec now{};
  const int result = clock_gettime(CLOCK_REALTIME, &now);
  out->tv_sec = now.tv_sec;
  out->tv_usec = now.tv_nsec / 1000;
  return result;
}

std::time_t time(std::time_t* out) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (out != nullptr) {
    *out = now.tv_sec;
  }
  return now.tv_sec;
}
}
