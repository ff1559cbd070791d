#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace argosy {

// Whether to cut before or after a layer.
enum class SplitPoint : std::uint8_t { BEGINNING, END };

// Layers by their names in named_modules(), in the order of forward.
using SplitSpec = std::vector<std::pair<std::string, SplitPoint>>;

namespace pipeline {
using argosy::SplitPoint;
using argosy::SplitSpec;
} // namespace pipeline

} // namespace argosy
