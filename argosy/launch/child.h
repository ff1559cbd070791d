#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

namespace argosy::launch {

// A process to start. File descriptors stay the caller's.
struct ChildSpec {
  std::vector<std::string> argv; // argv[0] is a path: no search takes place
  std::map<std::string, std::string> environment; // all of it
  std::vector<int> cpus; // to run on; empty: where we may run
  int stdin_fd = 0;
  int stdout_fd = 1;
  int stderr_fd = 2;
};

// Starts the process as leader of a process group of its own, with no signal
// blocked. It is killed when the calling thread ends. Returns once the program
// runs; throws SystemError when it cannot be executed.
pid_t start_child(const ChildSpec& spec);

} // namespace argosy::launch
