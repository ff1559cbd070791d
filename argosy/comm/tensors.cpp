#include "argosy/comm/tensors.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/ScalarType.h>

#include "argosy/common/error.h"

namespace argosy::comm {

DType dtype_of(const at::Tensor& tensor, std::string_view op) {
  ARGOSY_CHECK(
      tensor.defined() && tensor.device().is_cpu() &&
          tensor.layout() == c10::kStrided,
      "[comm.{}] expected a dense tensor on the CPU",
      op);
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

Contiguous::Contiguous(const at::Tensor& tensor) : tensor_(tensor) {
  const at::NoGradGuard no_grad; // parameters are sent as they are
  buffer_ = tensor.contiguous();
}

// contiguous() returns the tensor itself if it is contiguous already.
void Contiguous::put_back() const {
  const at::NoGradGuard no_grad;
  if (!buffer_.is_same(tensor_)) {
    tensor_.copy_(buffer_);
  }
}

} // namespace argosy::comm
