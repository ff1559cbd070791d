#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

namespace argosy::launch {

// A process to start. The caller keeps ownership of the file descriptors.
struct ChildSpec {
  std::vector<std::string> argv; // argv[0] is a path; PATH is not searched
  std::map<std::string, std::string> environment; // the complete environment
  std::vector<int> cpus; // CPU affinity; empty: inherited
  int stdin_fd = 0;
  int stdout_fd = 1;
  int stderr_fd = 2;
};

// Starts the process as leader of its own process group, with no signals
// blocked. It is killed when the calling thread ends. Returns once exec() has
// succeeded; throws SystemError when it fails.
pid_t start_child(const ChildSpec& spec);

} // namespace argosy::launch
