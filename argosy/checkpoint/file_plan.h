#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "argosy/checkpoint/safetensors.h"
#include "argosy/checkpoint/write_plan.h"

// Which file has which piece. A pure function of the plan of writes.
namespace argosy::checkpoint {

struct FilePlan {
  std::string path; // relative to the checkpoint's folder
  // All its tensors rarely change: if none did, the file of the last checkpoint
  // is linked.
  bool frozen = false;
  SafetensorsHeader header;
  // For each tensor of the header, the index of its write in the rank's plan.
  std::vector<std::size_t> writes;

  bool operator==(const FilePlan&) const = default;
};

// The files of one rank. A file has at most one piece of a tensor, as readers
// of such folders expect. `frozen[t]` is that of tensor t.
std::vector<FilePlan> plan_files(
    const std::vector<TensorInfo>& tensors,
    const std::vector<bool>& frozen,
    const std::vector<PlannedWrite>& writes,
    int rank);

} // namespace argosy::checkpoint
