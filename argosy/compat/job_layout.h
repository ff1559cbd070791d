#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "argosy/compat/strategy_file.h"

// A strategy as the ranks of a job see it: which block of each parameter each
// of them holds. Pure.
namespace argosy::compat {

// Stages are blocks of equally many ranks, one after the other.
struct JobLayout {
  int devices = 1;    // of each stage
  int num_stages = 1; // one, if the strategy is that of a single stage
  int first_stage = 0;

  struct StageLayout {
    int stage = 0;
    ParallelLayout layout;

    bool operator==(const StageLayout&) const = default;
  };
  // By name, without stages. Parameters that stages share have several.
  std::map<std::string, std::vector<StageLayout>> parameters;

  int num_ranks() const { return devices * num_stages; }
  int first_rank() const { return devices * first_stage; }

  bool operator==(const JobLayout&) const = default;
};

// Throws InvalidArgument when stages are missing, or when the parameters have
// different numbers of devices. `stage_ranks_only`: ranks of a file of one
// stage are those that the stage has in the job; otherwise they begin at 0.
JobLayout job_layout(
    const ParallelStrategy& strategy, bool stage_ranks_only = false);

// One rank that has all parameters of `other` whole.
JobLayout unsharded_like(const JobLayout& other);

// The layout of a parameter in the stage of a rank; null if it has none there.
const ParallelLayout* layout_at(
    const JobLayout& job, const std::string& name, int rank);

// The shape of a parameter; nullopt if the strategy does not say. Throws
// InvalidArgument if stages differ.
std::optional<dtensor::Shape> shape_in(
    const JobLayout& job, const std::string& name);

// A block and the ranks that hold it, ascending.
struct HeldBox {
  dtensor::Box box;
  std::vector<int> ranks;

  bool operator==(const HeldBox&) const = default;
};

// The distinct blocks of a parameter, without empty ones: together they are the
// tensor, once. Of stages that hold it in different layouts, the first counts.
std::vector<HeldBox> held_boxes(
    const JobLayout& job, const std::string& name, const dtensor::Shape& shape);

} // namespace argosy::compat
