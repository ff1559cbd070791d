#include "argosy/common/fault_point.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>

#include "argosy/common/error.h"
#include "argosy/common/rank_label.h"
#include "argosy/common/text.h"

namespace argosy {

namespace {

constexpr std::chrono::milliseconds kDelay{500};

struct Fault {
  std::string name;
  std::string action;
  long long left = 1; // times until it happens
  bool each_time = false;
  std::string rank; // empty: all
};

std::mutex faults_mutex;
Fault fault; // guarded by faults_mutex

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

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
    const std::string times = parts.size() == 3 ? parts[2] : "1";
    fault.each_time = times == "all";
    fault.left = parse_int(times).value_or(1);
    fault.rank = rank;
  }
  detail::faults_set.store(!text.empty(), std::memory_order_relaxed);
}

// Faults of the environment hold from the start of the process.
const bool of_environment = [] {
  const std::string text = variable("ARGOSY_FAULT");
  if (!text.empty()) {
    set_fault_of(text, variable("ARGOSY_FAULT_RANK"));
  }
  if (!variable("ARGOSY_FAULT_VISITS").empty()) {
    detail::faults_set.store(true, std::memory_order_relaxed);
  }
  return true;
}();

// Threads that no rank owns go by the process's rank; a process that has none
// is a launcher.
std::string own_rank() {
  const std::string label = rank_label();
  if (!label.empty()) {
    return split(label, '/').front();
  }
  const std::string rank = variable("RANK");
  return rank.empty() ? "launcher" : rank;
}

// The action to take now; empty: none.
std::string due(const std::string& name) {
  const std::lock_guard lock(faults_mutex);
  if (fault.name != name || (!fault.rank.empty() && own_rank() != fault.rank)) {
    return {};
  }
  return fault.each_time || --fault.left == 0 ? fault.action : "";
}

bool append(const std::string& path, int flags, const std::string& line) {
  const int file = ::open(
      path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | flags, 0666);
  if (file < 0) {
    return false;
  }
  // One write: lines of threads do not mix.
  const bool done = ::write(file, line.data(), line.size()) ==
      static_cast<ssize_t>(line.size());
  ::close(file);
  return done;
}

void note_visit(const char* name) {
  const std::string folder = variable("ARGOSY_FAULT_VISITS");
  if (!folder.empty()) {
    append(
        str(folder, "/visits.", ::getpid()),
        0,
        str(own_rank(), " ", name, "\n"));
  }
}

// Whether no process of the job has failed before this one.
bool is_first(const char* name) {
  const std::string mark = variable("ARGOSY_FAULT_ONCE");
  return mark.empty() || append(mark, O_EXCL, str(::getpid(), " ", name, "\n"));
}

} // namespace

namespace detail {

std::atomic<bool> faults_set{false};

bool hit_fault_point(const char* name) {
  const int error = errno;
  note_visit(name);
  const std::string action = due(name);
  const bool acts = !action.empty() && is_first(name);
  errno = error;
  if (!acts) {
    return false;
  }
  if (action == "kill") {
    ::raise(SIGKILL);
  } else if (action == "stop") {
    ::kill(::getpid(), SIGSTOP);
  } else if (action == "delay") {
    std::this_thread::sleep_for(kDelay);
  } else if (action == "throw") {
    throw SystemError(str_format("[fault] injected at {}", name));
  }
  return action == "fail";
}

} // namespace detail

void set_fault(const char* text) {
  set_fault_of(text, variable("ARGOSY_FAULT_RANK"));
}

} // namespace argosy
