#pragma once

#include <optional>
#include <string>
#include <string_view>
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

// Neighbours in the machine are neighbours here.
using Topology = std::vector<Core>;

// The cores within the process's cpuset and affinity. Throws SystemError.
Topology read_topology();

// CPUs for each of `num_ranks` ranks. Core: equal contiguous runs of cores, as
// far as they divide; cores are shared only when there are too few. Socket and
// Numa: all of the domain that holds the rank's share. None: empty sets.
std::vector<std::vector<int>> bind_ranks(
    const Topology& topology, BindTo bind, int num_ranks);

} // namespace argosy::launch
