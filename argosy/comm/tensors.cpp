#include "argosy/comm/tensors.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/ScalarType.h>

#include "argosy/common/error.h"
#include "argosy/torch_hooks/wrapper_tensor.h"

namespace argosy::comm {

// Wrappers say that they are dense and on the CPU, and have no memory: this
// check comes before the others.
void check_has_memory(const at::Tensor& tensor, std::string_view op) {
  ARGOSY_CHECK(tensor.defined(), "[comm.{}] an undefined tensor", op);
  ARGOSY_CHECK(
      !torch_hooks::is_wrapper(tensor),
      "[comm.{}] a DTensor (or a tensor of DeferredInit) {}, expected a plain "
      "tensor. Use reshard() to reduce or move a DTensor over its mesh, "
      "to_local() for the part of this rank, full_tensor() for the whole",
      op,
      tensor.sizes());
  ARGOSY_CHECK(
      tensor.device().is_cpu(),
      "[comm.{}] a tensor on {}, expected one on the CPU",
      op,
      tensor.device());
  ARGOSY_CHECK(
      tensor.layout() == c10::kStrided,
      "[comm.{}] a tensor of layout {}, expected a dense one: send to_dense(), "
      "or the indices and values",
      op,
      tensor.layout());
}

DType dtype_of(const at::Tensor& tensor, std::string_view op) {
  check_has_memory(tensor, op);
  switch (tensor.scalar_type()) {
    case c10::kFloat:
      return DType::Float32;
    case c10::kDouble:
      return DType::Float64;
    case c10::kHalf:
      return DType::Float16;
    case c10::kBFloat16:
      return DType::BFloat16;
    case c10::kChar:
      return DType::Int8;
    case c10::kByte:
      return DType::UInt8;
    case c10::kShort:
      return DType::Int16;
    case c10::kInt:
      return DType::Int32;
    case c10::kLong:
      return DType::Int64;
    case c10::kBool:
      return DType::Bool;
    case c10::kComplexFloat:
      return DType::Complex64;
    case c10::kComplexDouble:
      return DType::Complex128;
    default:
      break;
  }
  throw InvalidArgument(str_format(
      "[comm.{}] tensors of {} are not carried",
      op,
      c10::toString(tensor.scalar_type())));
}

at::Tensor in_memory_order(const at::Tensor& tensor) {
  const at::Tensor data = tensor.contiguous();
  // Memory does not show conjugation and negation that LibTorch puts off.
  return data.is_conj() || data.is_neg() ? data.resolve_conj().resolve_neg()
                                         : data;
}

Contiguous::Contiguous(const at::Tensor& tensor) : tensor_(tensor) {
  const at::NoGradGuard no_grad; // parameters are sent as they are
  buffer_ = in_memory_order(tensor);
}

// The buffer is the tensor itself if its memory already holds its values.
void Contiguous::put_back() const {
  const at::NoGradGuard no_grad;
  if (!buffer_.is_same(tensor_)) {
    tensor_.copy_(buffer_);
  }
}

} // namespace argosy::comm
