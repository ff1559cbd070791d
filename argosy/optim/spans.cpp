#include "argosy/optim/spans.h"

#include <ATen/core/Tensor.h>

#include "argosy/common/error.h"
#include "argosy/dtensor/dtensor.h"

namespace argosy::optim {

std::optional<Format> format_of(const at::Tensor& tensor) {
  if (is_dtensor(tensor)) {
    return std::nullopt;
  }
  switch (tensor.scalar_type()) {
    case c10::kFloat:
      return Format::Float32;
    case c10::kDouble:
      return Format::Float64;
    case c10::kHalf:
      return Format::Float16;
    case c10::kBFloat16:
      return Format::BFloat16;
    default:
      return std::nullopt;
  }
}

bool same_order(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes()) {
    return false;
  }
  if (a.is_contiguous() && b.is_contiguous()) {
    return true;
  }
  return a.strides() == b.strides() && a.is_non_overlapping_and_dense();
}

Span span_of(const at::Tensor& tensor) {
  const auto format = format_of(tensor);
  ARGOSY_ASSERT(format.has_value(), "not a tensor of floats");
  return {
      *format,
      Tile{
          .param = tensor.data_ptr(),
          .count = static_cast<std::size_t>(tensor.numel())}};
}

const KernelTable& kernels() {
  return kernels_of(simd::current_isa());
}

} // namespace argosy::optim
