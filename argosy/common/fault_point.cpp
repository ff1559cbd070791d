#include "argosy/common/fault_point.h"

#include <csignal>
#include <cstdlib>
#include <mutex>
#include <string>

#include "argosy/common/error.h"
#include "argosy/common/rank_label.h"
#include "argosy/common/text.h"

namespace argosy {

namespace {

struct Fault {
  std::string name;
  std::string action;
  long long left = 1; // times until it happens
  std::string rank;   // empty: all
};

std::mutex faults_mutex;
Fault fault; // guarded by faults_mutex

void set_fault_of(const std::string& text, const std::string& rank) {
  const auto parts = split(text, ':');
  ARGOSY_CHECK(
      text.empty() || parts.size() == 2 || parts.size() == 3,
      "[common.set_fault] \"{}\", expected NAME:ACTION or NAME:ACTION:N",
      text);
  const std::lock_guard lock(faults_mutex);
  fault = {};
  if (!text.empty()) {
    fault.name = parts[0];
    fault.action = parts[1];
    fault.left = parts.size() == 3 ? parse_int(parts[2]).value_or(1) : 1;
    fault.rank = rank;
  }
  detail::faults_set.store(!text.empty(), std::memory_order_relaxed);
}

// Faults of the environment hold from the start of the process.
const bool of_environment = [] {
  const char* const text = std::getenv("ARGOSY_FAULT");
  const char* const rank = std::getenv("ARGOSY_FAULT_RANK");
  if (text != nullptr) {
    set_fault_of(text, rank != nullptr ? rank : "");
  }
  return true;
}();

bool is_for_this_rank(const std::string& rank) {
  return rank.empty() || split(rank_label(), '/').front() == rank;
}

// The action to take now; empty: none.
std::string due(const std::string& name) {
  const std::lock_guard lock(faults_mutex);
  if (fault.name != name || !is_for_this_rank(fault.rank) ||
      --fault.left != 0) {
    return {};
  }
  return fault.action;
}

} // namespace

namespace detail {

std::atomic<bool> faults_set{false};

void hit_fault_point(const char* name) {
  const std::string action = due(name);
  if (action == "kill") {
    ::raise(SIGKILL);
  } else if (action == "stop") {
    ::raise(SIGSTOP);
  } else if (action == "throw") {
    throw SystemError(str_format("[fault] injected at {}", name));
  }
}

} // namespace detail

void set_fault(const char* text) {
  const char* const rank = std::getenv("ARGOSY_FAULT_RANK");
  set_fault_of(text, rank != nullptr ? rank : "");
}

} // namespace argosy
