#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace argosy::pipeline {

// A model is split by depth into parts, numbered from input to output. Each
// stage (a rank of the pipeline) holds one part or several, called its chunks.
// A schedule is a plain value that can be checked, simulated and drawn before
// it runs. No torch headers.

// What a stage does with one of its parts for one microbatch.
enum class Pass : std::uint8_t {
  kForward,
  kBackward,       // of inputs and weights together
  kBackwardInput,  // of inputs; the previous stage waits for it
  kBackwardWeight, // of weights; nobody waits for it
};

struct Step {
  Pass pass = Pass::kForward;
  int chunk = 0; // of the stage, in order of depth
  int microbatch = 0;

  bool operator==(const Step&) const = default;
};

// The assignment of parts to p stages.
enum class PartOrder : std::uint8_t {
  kRound, // part i on stage i mod p
  kV,     // down the stages and back up; stage 0 holds the first and last part
};

struct Schedule {
  std::string name;
  int stages = 1;
  int microbatches = 1;
  int chunks = 1; // per stage
  PartOrder order = PartOrder::kRound;
  // The steps of each stage, in order. Messages are implied by the placement of
  // the parts; see messages.h.
  std::vector<std::vector<Step>> steps;

  int parts() const { return stages * chunks; }
  int stage_of(int part) const;
  int chunk_of(int part) const { return part / stages; }
  int part_of(int stage, int chunk) const;

  bool operator==(const Schedule&) const = default;
};

// Throws InvalidArgument unless the schedule has at least one stage, microbatch
// and chunk, and few enough of them for its steps to fit in memory.
void check_shape(const Schedule& schedule);

} // namespace argosy::pipeline
