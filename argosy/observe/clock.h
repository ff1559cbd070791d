#pragma once

#include <chrono>
#include <cstdint>

// Wall-clock time, which all processes of a host share.
namespace argosy::observe {

inline std::int64_t unix_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

inline double unix_seconds() {
  return static_cast<double>(unix_ns()) * 1e-9;
}

} // namespace argosy::observe
