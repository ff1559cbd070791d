#pragma once

#include <string>
#include <vector>

#include "argosy/dtensor/layout/placement.h"

namespace argosy::python {

// Placements from the texts that to_string() gives: "S(0)", "R", "P(sum)".
// Throws InvalidArgument for any other.
Placements placements_from(const std::vector<std::string>& texts);

std::vector<std::string> to_texts(const Placements& placements);

} // namespace argosy::python
