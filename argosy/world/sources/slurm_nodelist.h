#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace argosy::world {

// Expands Slurm's host lists: "a[1-2,07],b" is a1, a2, a07, b; "c[1-2]d[3-4]"
// is c1d3, c1d4, c2d3, c2d4. A range keeps the width of its first number.
// Throws InvalidArgument that starts with `what`.
std::vector<std::string> expand_nodelist(
    std::string_view text, std::string_view what);

// Expands tasks per node: "2(x3),1" is 2, 2, 2, 1. Throws likewise.
std::vector<int> expand_tasks_per_node(
    std::string_view text, std::string_view what);

} // namespace argosy::world
