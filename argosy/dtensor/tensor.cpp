#include "argosy/dtensor/tensor.h"

#include <utility>

#include "argosy/common/error.h"
#include "argosy/dtensor/dispatch/register.h"

namespace argosy::dtensor {

namespace {

void delete_parts(void* parts) {
  delete static_cast<Parts*>(parts);
}

} // namespace

at::Tensor make_dtensor(
    Parts parts,
    at::IntArrayRef global,
    at::IntArrayRef strides,
    std::int64_t offset) {
  register_dispatch();
  const auto dtype = parts.local.dtype();
  const auto device = parts.local.device();
  c10::DispatchKeySet keys(c10::DispatchKey::PrivateUse1);
  if (parts.hooks != nullptr) {
    keys = keys.add(kLayerKey);
  }
  auto* context = new Parts(std::move(parts));
  auto storage = c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(),
      0,
      at::DataPtr(nullptr, context, &delete_parts, device),
      nullptr,
      false);
  auto impl = c10::make_intrusive<c10::TensorImpl>(
      c10::Storage(std::move(storage)), keys, dtype);
  if (strides.size() == global.size()) {
    impl->set_sizes_and_strides(global, strides, offset);
  } else {
    impl->set_sizes_contiguous(global);
  }
  return at::Tensor(std::move(impl));
}

void check_is_strided(const at::Tensor& tensor, const std::string& op) {
  ARGOSY_CHECK(
      tensor.layout() == at::kStrided && !tensor.is_quantized(),
      "[dtensor.",
      op,
      "] a tensor of layout ",
      tensor.layout(),
      ", which cannot be a DTensor");
}

at::Tensor without_lazy_bits(const at::Tensor& tensor) {
  return tensor.is_conj() || tensor.is_neg()
      ? tensor.resolve_conj().resolve_neg()
      : tensor;
}

void become(const at::Tensor& tensor, const at::Tensor& dtensor) {
  tensor.unsafeGetTensorImpl()->shallow_copy_from(dtensor.getIntrusivePtr());
}

void set_hooks(
    const at::Tensor& dtensor, std::shared_ptr<const LayerHooks> hooks) {
  Parts parts = require_parts(dtensor, "set_hooks");
  parts.hooks = std::move(hooks);
  become(
      dtensor,
      make_dtensor(
          std::move(parts),
          dtensor.sizes(),
          dtensor.strides(),
          dtensor.storage_offset()));
}

Parts* parts_of(const at::Tensor& tensor) {
  if (!tensor.defined()) {
    return nullptr;
  }
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  if (!impl->key_set().has_backend(c10::BackendComponent::PrivateUse1Bit) ||
      !impl->has_storage()) {
    return nullptr;
  }
  const at::DataPtr& data = impl->unsafe_storage().data_ptr();
  return data.get_deleter() == &delete_parts
      ? static_cast<Parts*>(data.get_context())
      : nullptr;
}

Parts& require_parts(const at::Tensor& tensor, const char* op) {
  Parts* parts = parts_of(tensor);
  ARGOSY_CHECK(
      parts != nullptr,
      "[dtensor.",
      op,
      "] a plain tensor, expected a DTensor");
  return *parts;
}

} // namespace argosy::dtensor
