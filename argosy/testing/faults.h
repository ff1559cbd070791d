#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

// Faults for tests of jobs: which points of the code a job comes to, and one of
// them, drawn from a seed, at which a process fails. See
// argosy/common/fault_point.h for the points themselves.
namespace argosy::testing {

// How often a rank came to a point; the rank may be "launcher".
struct FaultVisits {
  std::string rank;
  std::string point;
  int count = 0;

  bool operator==(const FaultVisits&) const = default;
};

// What the processes of a job wrote into the folder that ARGOSY_FAULT_VISITS
// named, in the order of ranks and points.
std::vector<FaultVisits> read_fault_visits(const std::filesystem::path& folder);

// One failure of one process.
struct Fault {
  std::string rank;
  std::string point;
  std::string action; // "kill", "throw", "stop" or "delay"
  int number = 1;     // of the visit

  bool operator==(const Fault&) const = default;

  // "kill rank 1 at memory.enter, visit 3".
  std::string text() const;

  // For the job. `mark` is a file that the fault creates as it happens; a
  // process that is started again does not fail again.
  std::map<std::string, std::string> environment(
      const std::filesystem::path& mark) const;
};

// Draws a fault: all points are equally likely, then all ranks that came to it,
// then all visits. The same seed and visits give the same fault. Throws
// InvalidArgument if there are no visits or no actions.
Fault draw_fault(
    std::uint64_t seed,
    const std::vector<FaultVisits>& visits,
    const std::vector<std::string>& actions);

} // namespace argosy::testing
