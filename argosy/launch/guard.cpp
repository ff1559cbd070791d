#include "argosy/launch/guard.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <iostream>

#include "argosy/common/error.h"
#include "argosy/common/process_status.h"
#include "argosy/launch/descendants.h"
#include "argosy/launch/fd.h"
#include "argosy/launch/signals.h"

namespace argosy::launch {

namespace {

// The body of the child. A process group of its own keeps the terminal's Ctrl-C
// from reaching it twice.
int run_child(const std::function<int(int)>& launcher, int alive_fd) {
  ::setpgid(0, 0);
  try {
    become_subreaper();
    return launcher(alive_fd);
  } catch (const InvalidArgument& error) {
    std::cerr << "argosy run: " << error.what() << std::endl;
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "argosy run: " << error.what() << std::endl;
    return 1;
  }
}

ProcessStatus forward_until_end(pid_t child, SignalSource& signals) {
  while (true) {
    const int signal = signals.wait();
    if (signal != SIGCHLD) {
      ::kill(child, signal);
      continue;
    }
    // Reaps adopted orphans as well.
    int status = 0;
    for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      if (pid == child) {
        return ProcessStatus::from_wait(status);
      }
    }
  }
}

} // namespace

// The guard is the process that the user started. It does nothing but forward
// signals, wait and clean up, so that even a launcher that crashes or is killed
// leaves no worker behind. The reverse case is the pipe `alive`: the guard
// holds its write end and never writes, so the launcher sees the end of the
// pipe when the guard dies.
int run_guarded(
    const std::vector<int>& signals,
    const std::function<int(int alive_fd)>& launcher) {
  become_subreaper();
  SignalSource source(signals); // before fork, so that no signal is lost
  Pipe alive = make_pipe();
  const pid_t child = ::fork(); // lint: allow fork: as in child.cpp
  if (child < 0) {
    throw SystemError(with_errno("[launch.guard] fork"));
  }
  if (child == 0) {
    // Otherwise our own copy would keep the pipe open after the guard's death.
    alive.write.close();
    const int code = run_child(launcher, alive.read.get());
    std::cout.flush();
    std::fflush(nullptr);
    ::_exit(code); // lint: allow exit: destructors are the parent's to run
  }
  ::setpgid(child, child);
  alive.read.close();
  const ProcessStatus status = forward_until_end(child, source);
  // If the launcher was killed, its descendants are ours now.
  kill_descendants();
  return status.shell_code();
}

} // namespace argosy::launch
