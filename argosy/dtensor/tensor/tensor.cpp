#include "argosy/dtensor/tensor/tensor.h"

#include <utility>

#include "argosy/common/error.h"

namespace argosy::dtensor {

at::Tensor make_dtensor(
    Parts&& parts,
    at::IntArrayRef global,
    at::IntArrayRef strides,
    std::int64_t offset) {
  const torch_hooks::WrapperMeta meta{
      .sizes = global,
      .strides = strides,
      .offset = offset,
      .dtype = parts.local.dtype(),
      .device = parts.local.device(),
      .is_layer = parts.hooks != nullptr};
  return torch_hooks::make_wrapper(std::move(parts), meta);
}

void check_is_strided(const at::Tensor& tensor, const std::string& op) {
  ARGOSY_CHECK(
      tensor.layout() == at::kStrided && !tensor.is_quantized(),
      "[dtensor.{}] a tensor of layout {}, which cannot be a DTensor",
      op,
      tensor.layout());
}

Parts& require_parts(const at::Tensor& tensor, const char* op) {
  Parts* parts = parts_of(tensor);
  ARGOSY_CHECK(
      parts != nullptr, "[dtensor.{}] a plain tensor, expected a DTensor", op);
  return *parts;
}

} // namespace argosy::dtensor
