#pragma once

#include <ATen/core/Tensor.h>

#include <string>

// Tensors without memory that say so. LibTorch's data_ptr() of a tensor that
// has none speaks of lazy allocation, or returns null, and torch::save() writes
// a file without its elements. These throw InvalidArgument instead, whoever
// asks for the memory: data_ptr(), accessor(), storage(), torch::save().
namespace argosy::torch_hooks {

// The text of the error. `value` is what the storage of the tensor owns.
using WhyNoMemory = std::string (*)(const void* value, at::IntArrayRef sizes);

// Sets the text for values of one type, which their deleter tells.
// Thread-safe.
void explain_no_memory(c10::DeleterFnPtr deleter, WhyNoMemory why);

c10::intrusive_ptr<c10::TensorImpl> make_memoryless(
    c10::Storage storage, c10::DispatchKeySet keys, caffe2::TypeMeta dtype);

// The storage of any tensor, also of those that refuse; may be null.
inline const c10::Storage& storage_of(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->unsafe_storage();
}

// A tensor of the meta device, of the shape and type of `like`; `why` is the
// text of the error.
at::Tensor make_released(const at::Tensor& like, std::string why);

// Makes `impl` refuse as `other` does, or no longer.
void refuse_as(c10::TensorImpl& impl, const c10::TensorImpl& other);

} // namespace argosy::torch_hooks
