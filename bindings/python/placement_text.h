#pragma once

#include <string>
#include <vector>

#include "argosy/dtensor/layout/placement.h"

namespace argosy::python {

// Parses placements in to_string()'s form: "S(0)", "R", "P(sum)". Throws
// InvalidArgument for anything else.
Placements placements_from(const std::vector<std::string>& texts);

std::vector<std::string> to_texts(const Placements& placements);

} // namespace argosy::python
