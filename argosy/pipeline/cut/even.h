#pragma once

#include <limits>
#include <vector>

// Not installed.
namespace argosy::pipeline {

inline constexpr double kNoPlace = std::numeric_limits<double>::infinity();

// Where to cut a row of weights into parts, none without weights: first so that
// the heaviest part is as light as it can be, then, where it gets heavier by at
// most 5 %, so that the sum of the costs of the places is the least. `costs` by
// place, the one before each weight; kNoPlace: not there. Throws
// InvalidArgument when there are too few places.
std::vector<int> even_places(
    const std::vector<double>& weights,
    const std::vector<double>& costs,
    int parts);

} // namespace argosy::pipeline
