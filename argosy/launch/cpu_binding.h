#pragma once

#include <string>
#include <vector>

namespace argosy::launch {

enum class BindTo { None, Core, Numa, Socket };

std::string to_string(BindTo bind);

// A processor core that this process may use.
struct Core {
  std::vector<int> cpus; // hardware threads, as the system numbers them
  int numa = 0;
  int socket = 0;

  bool operator==(const Core&) const = default;
};

// Cores that are close in the machine are adjacent in the list.
using Topology = std::vector<Core>;

// Reads the cores within the process's cpuset and affinity. Throws SystemError.
Topology read_topology();

// Returns the CPUs for each of `num_ranks` ranks. Core: equal contiguous ranges
// of cores as far as they divide, shared only if there are too few. Socket and
// Numa: the whole domain that contains the rank's range. None: empty sets.
std::vector<std::vector<int>> bind_ranks(
    const Topology& topology, BindTo bind, int num_ranks);

} // namespace argosy::launch
