#pragma once

#include <cstddef>

namespace argosy::pipeline {

// Numbers of stages, nodes and values are ints; containers count in size_t.
inline std::size_t at(int index) {
  return static_cast<std::size_t>(index);
}

} // namespace argosy::pipeline
