#pragma once

#include <atomic>

// Named places where tests make a process fail. They are compiled in always and
// cost one relaxed load while no fault is set.
namespace argosy {

namespace detail {
extern std::atomic<bool> faults_set;
void hit_fault_point(const char* name);
} // namespace detail

// The variable ARGOSY_FAULT sets a fault when a process starts: "NAME:ACTION"
// or "NAME:ACTION:N" for the N-th time (from 1). Actions: "kill" (SIGKILL),
// "throw" (SystemError), "stop" (SIGSTOP). With ARGOSY_FAULT_RANK only that
// rank fails. set_fault() does the same later, for tests within a process; ""
// removes it.
void set_fault(const char* fault);

inline void fault_point(const char* name) {
  if (detail::faults_set.load(std::memory_order_relaxed)) [[unlikely]] {
    detail::hit_fault_point(name);
  }
}

} // namespace argosy
