#include "argosy/dtensor/ops/strided_view.h"

#include <algorithm>

namespace argosy::dtensor {

namespace {

// Dims of more than one element, those of the longest strides first.
std::vector<std::size_t> long_dims(const Geometry& base) {
  std::vector<std::size_t> dims;
  for (std::size_t dim = 0; dim < base.sizes.size(); ++dim) {
    if (base.sizes[dim] > 1 && base.strides[dim] > 0) {
      dims.push_back(dim);
    }
  }
  std::ranges::stable_sort(
      dims, [&](auto a, auto b) { return base.strides[a] > base.strides[b]; });
  return dims;
}

// The dim that steps of this stride go through.
int stepped_dim(
    const Geometry& base,
    const std::vector<std::size_t>& dims,
    std::int64_t stride) {
  for (const std::size_t dim : dims) {
    if (base.strides[dim] <= stride) {
      return stride % base.strides[dim] == 0 ? static_cast<int>(dim) : -1;
    }
  }
  return -1;
}

} // namespace

std::optional<StridedView> strided_view(
    const Geometry& base, const Geometry& view, std::int64_t offset) {
  const auto dims = long_dims(base);
  StridedView found{
      Shape(base.sizes.size(), 0),
      std::vector<int>(view.sizes.size(), -1),
      Shape(view.sizes.size(), 0)};
  for (const std::size_t dim : dims) {
    found.starts[dim] = offset / base.strides[dim];
    offset %= base.strides[dim];
  }
  if (offset != 0) {
    return std::nullopt;
  }
  for (std::size_t j = 0; j < view.sizes.size(); ++j) {
    if (view.sizes[j] == 1 || view.strides[j] == 0) {
      continue;
    }
    const int dim = stepped_dim(base, dims, view.strides[j]);
    const bool is_used =
        dim >= 0 && std::ranges::find(found.dims, dim) != found.dims.end();
    if (dim < 0 || is_used) {
      return std::nullopt;
    }
    const auto d = static_cast<std::size_t>(dim);
    found.dims[j] = dim;
    found.steps[j] = view.strides[j] / base.strides[d];
    const std::int64_t last =
        found.starts[d] + (view.sizes[j] - 1) * found.steps[j];
    if (last >= base.sizes[d]) {
      return std::nullopt;
    }
  }
  return found;
}

} // namespace argosy::dtensor
