#include "argosy/launch/descendants.h"

#include <dirent.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "argosy/common/error.h"
#include "argosy/common/log.h"
#include "argosy/common/process_watch.h"
#include "argosy/common/text.h"

namespace argosy::launch {

namespace {

std::multimap<pid_t, pid_t> children_by_parent() {
  std::multimap<pid_t, pid_t> children;
  const std::unique_ptr<DIR, void (*)(DIR*)> proc(
      ::opendir("/proc"), [](DIR* folder) { ::closedir(folder); });
  if (proc == nullptr) {
    throw SystemError(with_errno("[launch.descendants] /proc"));
  }
  while (const dirent* entry = ::readdir(proc.get())) {
    const auto pid = parse_int(entry->d_name);
    // A process may end between readdir() and here; it is then skipped.
    const auto process = pid ? read_process_state(*pid) : std::nullopt;
    if (process && !process->ended()) {
      children.emplace(process->parent, static_cast<pid_t>(*pid));
    }
  }
  return children;
}

} // namespace

// Breadth-first over one snapshot of /proc: `found` is both the result and the
// queue. Reads one small file per process of the host, so callers use it only
// when a job ends, not while it runs.
std::vector<pid_t> descendants(pid_t ancestor) {
  const auto children = children_by_parent();
  std::vector<pid_t> found;
  pid_t parent = ancestor;
  for (std::size_t next = 0;; ++next) {
    const auto [begin, end] = children.equal_range(parent);
    for (auto child = begin; child != end; ++child) {
      found.push_back(child->second);
    }
    if (next == found.size()) {
      return found;
    }
    parent = found[next];
  }
}

void signal_descendants(int signal) {
  for (const pid_t pid : descendants(::getpid())) {
    ::kill(pid, signal);
  }
}

void become_subreaper() {
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
    throw SystemError(with_errno("[launch.descendants] cannot adopt orphans"));
  }
}

// A process may fork between the snapshot and its SIGKILL, and a subreaper then
// inherits the new one. So this repeats until a snapshot is empty. Some never
// end: those that wait for a device in the kernel, and those of another user.
std::vector<pid_t> kill_descendants(Deadline deadline) {
  while (true) {
    const auto alive = descendants(::getpid());
    for (const pid_t pid : alive) {
      ::kill(pid, SIGKILL);
    }
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    if (alive.empty() || deadline.expired()) {
      return alive;
    }
    ::poll(nullptr, 0, 2); // killed processes need a moment to end
  }
}

void kill_descendants() {
  constexpr auto kLimit = std::chrono::seconds(10);
  const auto left = kill_descendants(Deadline::after(kLimit));
  if (!left.empty()) {
    std::vector<std::string> numbers;
    for (const pid_t pid : left) {
      numbers.push_back(std::to_string(pid));
    }
    log::error(
        "[launch.descendants] process {} did not end within {} of SIGKILL and "
        "is left behind: it may wait for a device, or belong to another user",
        join(numbers, ", "),
        duration_text(kLimit));
  }
}

} // namespace argosy::launch
