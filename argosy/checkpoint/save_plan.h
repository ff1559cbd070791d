#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "argosy/checkpoint/exchange.h"
#include "argosy/checkpoint/file_plan.h"

// What a rank does to save. Not installed.
namespace argosy::checkpoint {

class State;

struct SavePlan {
  Inventory inventory;
  std::vector<PlannedWrite> writes; // of this rank
  std::vector<FilePlan> files;      // of this rank
  std::uint32_t first_file = 0; // number of this rank's first file, over all
};

// Makes plans, and remembers the last one: as long as no rank holds anything
// else, a save exchanges one hash.
class SavePlanner {
 public:
  // Returns what this rank gives, and the plan. Throws CheckpointError if ranks
  // save different steps. Collective.
  struct Prepared {
    Contents contents;
    std::shared_ptr<const SavePlan> plan;
  };
  Prepared prepare(State& state, const Ranks& ranks, std::int64_t step);

 private:
  std::vector<std::string> hashes_; // of all ranks' descriptions
  std::shared_ptr<const SavePlan> plan_;
};

} // namespace argosy::checkpoint
