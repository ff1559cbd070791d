#pragma once

#include <limits>
#include <vector>

// Not installed.
namespace argosy::pipeline {

inline constexpr double kNoCut = std::numeric_limits<double>::infinity();

// Splits a sequence of weights into non-empty parts. Returns the positions of
// the cuts: first it minimizes the largest part, then, allowing it to grow by 5
// %, it minimizes the total cost of the positions. `costs[i]` is the cost of
// cutting before weight i; kNoCut forbids it. Throws InvalidArgument when
// there are too few positions.
std::vector<int> balanced_cuts(
    const std::vector<double>& weights,
    const std::vector<double>& costs,
    int parts);

} // namespace argosy::pipeline
