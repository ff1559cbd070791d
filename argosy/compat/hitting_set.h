#pragma once

#include <vector>

namespace argosy::compat {

// A smallest set of numbers that has at least one of each list; ascending. Of
// equally small ones, one that has `preferred` and numbers that follow it.
// Lists are not empty. The search is exact while it is short (as it is for
// slices of device matrices) and otherwise stops at the best set that it found.
std::vector<int> hitting_set(
    std::vector<std::vector<int>> lists, int preferred);

} // namespace argosy::compat
