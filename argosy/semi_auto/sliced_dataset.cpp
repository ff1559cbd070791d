#include "argosy/semi_auto/sliced_dataset.h"

#include <ATen/ops/full.h>

#include "argosy/common/error.h"

namespace argosy {

at::Tensor fill_around(
    const at::Tensor& read, const SampleSlice& slice, double fill) {
  ARGOSY_CHECK(
      read.sizes() == at::IntArrayRef(slice.read.size),
      "[data.slice] a part of shape {}, expected {}",
      read.sizes(),
      at::IntArrayRef(slice.read.size));
  if (!slice.has_fill()) {
    return read;
  }
  // constant_pad_nd() refuses dims without elements.
  at::Tensor result = at::full(slice.shape(), fill, read.options());
  at::Tensor inside = result;
  for (std::size_t dim = 0; dim < slice.before.size(); ++dim) {
    inside = inside.narrow(
        static_cast<std::int64_t>(dim),
        slice.before[dim],
        slice.read.size[dim]);
  }
  inside.copy_(read);
  return result;
}

at::Tensor cut_sample(
    const at::Tensor& sample, const SampleSlice& slice, double fill) {
  const dtensor::Box& box = slice.read;
  ARGOSY_CHECK(
      sample.dim() == static_cast<std::int64_t>(box.size.size()),
      "[data.slice] a sample of {} dims, expected {}",
      sample.dim(),
      box.size.size());
  at::Tensor part = sample;
  for (std::int64_t dim = 0; dim < sample.dim(); ++dim) {
    const auto at = static_cast<std::size_t>(dim);
    ARGOSY_CHECK(
        box.offset[at] + box.size[at] <= sample.size(dim),
        "[data.slice] a sample of shape {}, expected {} or more in dim {}",
        sample.sizes(),
        box.offset[at] + box.size[at],
        dim);
    part = part.narrow(dim, box.offset[at], box.size[at]);
  }
  // Not a view: it would keep the whole sample.
  return slice.has_fill() ? fill_around(part, slice, fill) : part.clone();
}

} // namespace argosy
