#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "argosy/common/deadline.h"
#include "argosy/online/schedule.h"

namespace argosy::online {

// The files of a pass.
struct PassFiles {
  std::vector<std::string> files = {}; // URLs, split by split, by name
  std::string missing = {};            // what is not there yet; empty: complete

  bool operator==(const PassFiles&) const = default;
};

// Looks once. Throws FsError, TimeoutError.
PassFiles find_files(
    const Schedule& schedule, const PassPlan& plan, Deadline deadline);

// Whether the whole name fits a pattern with '*' and '?'.
bool fits_pattern(std::string_view name, std::string_view pattern);

} // namespace argosy::online
