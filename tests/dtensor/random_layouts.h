#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "argosy/dtensor/layout/dist_attr.h"
#include "argosy/dtensor/layout/layout.h"

namespace argosy::testing {

// Where a tensor may come from and go to, drawn alike everywhere.
class RandomLayouts {
 public:
  explicit RandomLayouts(std::uint32_t seed) : random_(seed) {}

  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(n));
  }

  // Of all ranks below `num_ranks`, in up to three axes.
  ProcessMesh mesh(std::int64_t num_ranks) {
    ProcessMesh::Shape shape;
    while (num_ranks > 1 && shape.size() < 2) {
      const std::int64_t size = divisor(num_ranks);
      shape.push_back(size);
      num_ranks /= size;
    }
    if (num_ranks > 1 || shape.empty()) {
      shape.push_back(num_ranks);
    }
    return ProcessMesh::of_shape(shape);
  }

  // Every axis cuts a dim or replicates.
  Placements placements(int ndim, int num_axes) {
    Placements result(static_cast<std::size_t>(num_axes), Replicate());
    for (std::size_t axis = 0; axis < result.size(); ++axis) {
      const auto dim = static_cast<int>(below(ndim + 1));
      if (dim < ndim) {
        result[axis] = Shard(dim);
      }
    }
    return result;
  }

  DistAttr attr(int ndim, std::int64_t num_ranks) {
    const ProcessMesh on = mesh(num_ranks);
    return {on, placements(ndim, on.ndim())};
  }

 private:
  std::int64_t divisor(std::int64_t n) {
    std::int64_t found = 1 + below(n);
    while (n % found != 0) {
      found = 1 + below(n);
    }
    return found;
  }

  std::mt19937 random_;
};

} // namespace argosy::testing
