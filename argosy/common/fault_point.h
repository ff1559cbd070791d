#pragma once

#include <atomic>

// Named places where tests make a process fail. They are compiled in always and
// cost one relaxed load while no fault is set. docs/faults.md lists them.
namespace argosy {

namespace detail {
extern std::atomic<bool> faults_set;
bool hit_fault_point(const char* name);
} // namespace detail

// The variable ARGOSY_FAULT sets a fault when a process starts: "NAME:ACTION"
// or "NAME:ACTION:N" for the N-th time (from 1; "all": each time). Actions:
// "kill" (SIGKILL), "throw" (SystemError), "stop" (SIGSTOP), "delay" (half a
// second), "fail" (the call that follows fails, where fault_fails() asks). With
// ARGOSY_FAULT_RANK only that rank fails, or "launcher". With ARGOSY_FAULT_ONCE
// only the first process that creates that file fails: those that replace it do
// not.
//
// With ARGOSY_FAULT_VISITS nothing fails: each process writes the points that
// it comes to into a file of that folder, a line "RANK NAME" for each visit.
//
// set_fault() sets a fault later, for tests within a process; "" removes it.
void set_fault(const char* fault);

inline void fault_point(const char* name) {
  if (detail::faults_set.load(std::memory_order_relaxed)) [[unlikely]] {
    detail::hit_fault_point(name);
  }
}

// A fault point in front of a call of the system: whether that call is to fail.
inline bool fault_fails(const char* name) {
  return detail::faults_set.load(std::memory_order_relaxed) &&
      detail::hit_fault_point(name);
}

} // namespace argosy
