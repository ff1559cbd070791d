#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "argosy/testing/faults.h"

// What a seed of the soak means.
namespace argosy::testing {

struct Scenario {
  std::string name;
  int nodes = 1;
  int ranks = 2;
  bool restarts = false;
  bool has_library = true; // workers are ranks; else plain shells
};

const std::vector<Scenario>& scenarios();

// A fault from outside the code.
enum class Outside {
  None,
  KillWorker,
  PauseWorker, // and let it go on
  StopWorker,  // for good
  KillLauncher,
  PauseLauncher,
  KillGuard,
  FewFiles,
  LittleMemory,
  Garbage,    // at the port where nodes meet
  Strangers,  // at all ports, all the time
  ClockJumps, // of the wall clock of a node
  FullDisk,   // where the job saves
};

struct Plan {
  std::uint64_t seed = 0;
  const Scenario* scenario = nullptr;
  std::optional<Fault> fault;
  Outside outside = Outside::None;
  std::size_t node = 0; // whom it hits
  int delay_ms = 0;     // of an outside fault
  int amount = 0;       // files, megabytes, or kilobytes of a disk

  std::string text() const;
  // Whether a job must go on as if nothing had happened.
  bool is_harmless() const;
};

// Words before a command that limit its resources as the plan says.
std::vector<std::string> limits_of(const Plan& plan);

// What comes to the job from outside, drawn from a seed. Others of the seed's
// draws precede it: `random` goes on with them.
void draw_outside(Plan& plan, std::mt19937_64& random);

// Seeds from here on are of faults that must change nothing: each scenario with
// strangers at its ports, then each with a clock that jumps.
inline constexpr std::uint64_t kFirstHarmlessSeed = 10'000;
Plan harmless_plan(std::uint64_t seed);

// Seeds from here on: each scenario that saves, on a small disk.
inline constexpr std::uint64_t kFirstDiskSeed = 20'000;
Plan disk_plan(std::uint64_t seed);

} // namespace argosy::testing
