#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "argosy/serving/export_file.h"

namespace argosy::serving {

// Which exports a reader opens next, in order, and what keeps it from going on
// behind them.
struct SwitchPlan {
  std::vector<ExportName> open{};
  std::string problem{}; // names the file; empty: none

  bool operator==(const SwitchPlan&) const = default;
};

// `current`: the number of the reader's version, none before the first. The
// newest base counts, unless the reader is past it; then all deltas behind
// without a gap.
SwitchPlan plan_switch(
    std::vector<ExportName> listed, std::optional<std::uint64_t> current);

} // namespace argosy::serving
