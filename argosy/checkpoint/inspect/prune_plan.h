#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "argosy/checkpoint/folder.h"
#include "argosy/checkpoint/inspect/folder_list.h"

// Which checkpoints may go. Pure.
namespace argosy::checkpoint {

struct PrunePolicy {
  // As a Checkpointer has it. Without `last`, the newest one counts as kept.
  KeepPolicy keep{};
  bool uncommitted = false; // remove those, if older than a committed one
};

struct PruneDecision {
  std::string name;
  bool keep = true;
  std::string reason;

  bool operator==(const PruneDecision&) const = default;
};
std::ostream& operator<<(std::ostream& out, const PruneDecision& decision);

// Decides for each entry, in their order (by step). A checkpoint goes if the
// policy does not keep it; the newest good one stays always, and so do the one
// that `latest` names, damaged ones, and uncommitted ones that may still be
// written. Throws InvalidArgument for a policy that says nothing, and for a
// metric that no checkpoint has.
std::vector<PruneDecision> plan_prune(
    const std::vector<CheckpointEntry>& entries, const PrunePolicy& policy);

// A number among training values, by its path ("metrics.loss").
std::optional<double> training_value(
    const nlohmann::json& values, const std::string& path);

} // namespace argosy::checkpoint
