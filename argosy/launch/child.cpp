#include "argosy/launch/child.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "argosy/common/error.h"
#include "argosy/common/text.h"
#include "argosy/launch/fd.h"

namespace argosy::launch {

namespace {

// Everything the child needs between fork() and exec(), where it must not
// allocate memory.
struct Prepared {
  std::vector<std::string> entries;
  std::vector<char*> argv;
  std::vector<char*> envp;
  cpu_set_t cpus;
  bool bound = false;
  std::array<int, 3> stdio;
  pid_t parent = 0;
  int report_fd = -1;
};

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const std::string& text : texts) {
    result.push_back(const_cast<char*>(text.c_str()));
  }
  result.push_back(nullptr);
  return result;
}

Prepared prepare(const ChildSpec& spec) {
  Prepared p;
  for (const auto& [name, value] : spec.environment) {
    p.entries.push_back(str(name, "=", value));
  }
  p.argv = pointers(spec.argv);
  p.envp = pointers(p.entries);
  CPU_ZERO(&p.cpus);
  for (const int cpu : spec.cpus) {
    CPU_SET(cpu, &p.cpus);
  }
  p.bound = !spec.cpus.empty();
  p.stdio = {spec.stdin_fd, spec.stdout_fd, spec.stderr_fd};
  p.parent = ::getpid();
  return p;
}

// dup2() onto the same descriptor would leave it close-on-exec, and could
// overwrite one that a later stream needs.
bool place_stdio(std::array<int, 3> stdio) {
  for (int& fd : stdio) {
    fd = ::fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (fd < 0) {
      return false;
    }
  }
  for (int target = 0; target < 3; ++target) {
    if (::dup2(stdio[target], target) < 0) {
      return false;
    }
  }
  return true;
}

// Runs in the child: only async-signal-safe calls.
[[noreturn]] void become(const Prepared& p) {
  sigset_t none;
  ::sigemptyset(&none);
  ::setpgid(0, 0);
  // The kernel kills the worker when the launcher ends, however it ends.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const bool orphan = ::getppid() != p.parent; // the parent died before prctl()
  if (!orphan && place_stdio(p.stdio) &&
      (!p.bound || ::sched_setaffinity(0, sizeof(p.cpus), &p.cpus) == 0)) {
    // exec() keeps the mask, in which the launcher blocks what it reads from
    // its signalfd (signals.cpp).
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::execve(p.argv[0], p.argv.data(), p.envp.data());
  }
  const int error = errno;
  [[maybe_unused]] const auto written =
      ::write(p.report_fd, &error, sizeof(error));
  ::_exit(127); // lint: allow exit: the child that found no program
}

} // namespace

pid_t start_child(const ChildSpec& spec) {
  Prepared prepared = prepare(spec);
  // Closed by a successful exec(); otherwise it carries errno.
  Pipe report = make_pipe();
  prepared.report_fd = report.write.get();
  const pid_t pid = ::fork(); // lint: allow fork: no torch in the launcher
  if (pid == 0) {
    become(prepared);
  }
  if (pid < 0) {
    throw SystemError(with_errno("[launch.child] fork"));
  }
  ::setpgid(pid, pid); // also here, so that the group exists when we return
  report.write.close();
  // Blocks until exec() closes the other end or the child reports, so that a
  // missing program is an error here and not a worker that failed.
  int error = 0;
  if (::read(report.read.get(), &error, sizeof(error)) == sizeof(error)) {
    ::waitpid(pid, nullptr, 0);
    errno = error;
    throw SystemError(
        with_errno(str("[launch.child] cannot run ", join(spec.argv, " "))));
  }
  return pid;
}

} // namespace argosy::launch
