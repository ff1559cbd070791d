#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "argosy/comm/kernels/dtype.h"

// Tensors as the contiguous buffers that backends take. Not installed.
namespace argosy::comm {

// Throws InvalidArgument unless the tensor has memory of its own that a
// collective can read and write: a dense tensor on the CPU, no DTensor. `op`
// names the operation in the message.
void check_has_memory(const at::Tensor& tensor, std::string_view op);

// The same, and throws for element types that no backend supports.
DType dtype_of(const at::Tensor& tensor, std::string_view op = "op");

// A tensor whose memory holds the values in their order: the tensor itself if
// its own does, else a copy.
at::Tensor in_memory_order(const at::Tensor& tensor);

// Contiguous memory with the values of a tensor: its own memory if that is
// contiguous, else a copy, which put_back() writes to the tensor.
class Contiguous {
 public:
  explicit Contiguous(const at::Tensor& tensor);

  void* data() const { return buffer_.data_ptr(); }
  std::size_t count() const {
    return static_cast<std::size_t>(buffer_.numel());
  }
  void put_back() const;

 private:
  at::Tensor tensor_;
  at::Tensor buffer_;
};

} // namespace argosy::comm
