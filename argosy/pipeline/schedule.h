#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace argosy::pipeline {

// A model is cut by depth into parts, numbered from its input to its output.
// Each stage (a rank of the pipeline) holds one part or, as chunks, several.
// Torch-free: schedules are plans, which can be looked at before they run.

// What a stage does with one of its parts and one microbatch.
enum class Pass : std::uint8_t {
  kForward,
  kBackward,       // of inputs and weights, at once
  kBackwardInput,  // of inputs, for which the stage before waits
  kBackwardWeight, // of weights, for which nobody waits
};

struct Step {
  Pass pass = Pass::kForward;
  int chunk = 0; // of the stage, in the order of depth
  int microbatch = 0;

  bool operator==(const Step&) const = default;
};

// Which stage holds which part.
enum class PartOrder : std::uint8_t {
  kRound, // part i at stage i mod p: the last stage is followed by the first
  kV,     // down the stages and back up: the first holds first and last part
};

struct Schedule {
  std::string name;
  int stages = 1;
  int microbatches = 1;
  int chunks = 1; // of each stage
  PartOrder order = PartOrder::kRound;
  // By stage: what it does, one after the other. Messages are not in it: they
  // follow from where the parts are.
  std::vector<std::vector<Step>> steps;

  int parts() const { return stages * chunks; }
  int stage_of(int part) const;
  int chunk_of(int part) const { return part / stages; }
  int part_of(int stage, int chunk) const;

  bool operator==(const Schedule&) const = default;
};

} // namespace argosy::pipeline
