#include "argosy/launch/descendants.h"

#include <dirent.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "argosy/common/error.h"
#include "argosy/common/text.h"

namespace argosy::launch {

namespace {

struct Process {
  pid_t parent = 0;
  bool zombie = false;
};

std::optional<Process> read_process(pid_t pid) {
  std::ifstream file(str("/proc/", pid, "/stat"));
  std::string line;
  std::getline(file, line);
  // The program name is in parentheses and may contain any character.
  const std::size_t name_end = line.rfind(')');
  if (name_end == std::string::npos || name_end + 4 > line.size()) {
    return std::nullopt;
  }
  const auto fields = split(std::string_view(line).substr(name_end + 2), ' ');
  const auto parent = parse_int(fields.size() > 1 ? fields[1] : "");
  if (!parent) {
    return std::nullopt;
  }
  const bool zombie = fields[0] == "Z" || fields[0] == "X";
  return Process{static_cast<pid_t>(*parent), zombie};
}

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
    const auto process = pid ? read_process(*pid) : std::nullopt;
    if (process && !process->zombie) {
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
// inherits the new one. So this repeats until a snapshot is empty.
void kill_descendants() {
  while (true) {
    const auto alive = descendants(::getpid());
    for (const pid_t pid : alive) {
      ::kill(pid, SIGKILL);
    }
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    if (alive.empty()) {
      return;
    }
    ::poll(nullptr, 0, 2); // killed processes need a moment to end
  }
}

} // namespace argosy::launch
