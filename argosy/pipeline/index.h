#pragma once

#include <cstddef>

namespace argosy::pipeline {

// Converts indices of stages, nodes and values, which are ints, for containers.
inline std::size_t at(int index) {
  return static_cast<std::size_t>(index);
}

} // namespace argosy::pipeline
