#pragma once

#include <algorithm>
#include <cstddef>

namespace argosy::comm {

// Part `index` of `count` elements cut into `parts` nearly equal ones, each but
// the last a multiple of `grain` elements.
struct Slice {
  std::size_t begin = 0;
  std::size_t count = 0;
};

constexpr Slice slice_of(
    std::size_t count, int parts, int index, std::size_t grain) {
  const std::size_t units = (count + grain - 1) / grain;
  const auto n = static_cast<std::size_t>(parts);
  const auto i = static_cast<std::size_t>(index);
  const std::size_t begin = std::min(count, units * i / n * grain);
  const std::size_t end = std::min(count, units * (i + 1) / n * grain);
  return {begin, end - begin};
}

} // namespace argosy::comm
