#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "argosy/dtensor/layout/layout.h"

namespace argosy::dtensor {

struct Geometry {
  Shape sizes;
  Shape strides;
};

// A view as it is said by slices: where it starts in each dim of its base, and
// for each of its own dims the dim of the base that it steps through.
struct StridedView {
  Shape starts;
  std::vector<int> dims; // -1: of one element, or expanded
  Shape steps;

  bool operator==(const StridedView&) const = default;
};

// None when the view is no slice of its base, as a diagonal is not. `offset` is
// from the base's first element. Pure.
std::optional<StridedView> strided_view(
    const Geometry& base, const Geometry& view, std::int64_t offset);

} // namespace argosy::dtensor
