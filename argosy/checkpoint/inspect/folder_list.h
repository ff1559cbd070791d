#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "argosy/checkpoint/hash.h"
#include "argosy/fs/open.h"

namespace argosy::checkpoint {

// A checkpoint in a folder of checkpoints.
struct CheckpointEntry {
  std::string name; // of its folder
  std::int64_t step = 0;
  bool committed = false;  // it has a manifest
  bool latest = false;     // load() takes it: the newest that is committed
  bool named = false;      // the file `latest` names it
  std::uint64_t bytes = 0; // of all files in its folder
  std::string created{};
  std::optional<Hash128> root{};
  nlohmann::json values = nlohmann::json::object();
  // Why it cannot be loaded although it is committed: a manifest that cannot
  // be read, files that are missing or have other sizes. Empty if all is well;
  // contents are not verified.
  std::string problem{};

  bool good() const { return committed && problem.empty(); }
};

// Checkpoints one level below a folder, by step and name; or the folder itself,
// if it is one. Throws FsError.
std::vector<CheckpointEntry> list_checkpoints(const fs::Location& folder);

} // namespace argosy::checkpoint
