#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace argosy {

// Where a pipeline is cut: before a layer, or after it.
enum class SplitPoint : std::uint8_t { BEGINNING, END };

// Layers by the name that named_modules() gives them, in the order of forward.
using SplitSpec = std::vector<std::pair<std::string, SplitPoint>>;

} // namespace argosy
