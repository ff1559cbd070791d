#pragma once

#include <cstdint>
#include <vector>

#include "argosy/dtensor/layout/placement.h"

namespace argosy::testing {

// All that a tensor of `ndim` dims can be on a mesh of `num_axes` axes.
inline std::vector<Placements> all_placements(
    int ndim,
    int num_axes,
    const std::vector<Placement>& partials = {Partial()}) {
  std::vector<Placement> each{Replicate()};
  for (int dim = 0; dim < ndim; ++dim) {
    each.push_back(Shard(dim));
  }
  each.insert(each.end(), partials.begin(), partials.end());
  std::vector<Placements> all{
      Placements(static_cast<std::size_t>(num_axes), Replicate())};
  for (std::size_t axis = 0; axis < static_cast<std::size_t>(num_axes);
       ++axis) {
    std::vector<Placements> more;
    for (const Placements& base : all) {
      for (const Placement one : each) {
        more.push_back(base);
        more.back()[axis] = one;
      }
    }
    all = std::move(more);
  }
  return all;
}

} // namespace argosy::testing
