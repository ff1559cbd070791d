#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "argosy/optim/flat_layout.h"

namespace argosy::optim {

// Allocates a contiguous CPU tensor with the alignment of the layout.
using Allocator =
    std::function<at::Tensor(at::IntArrayRef sizes, c10::ScalarType dtype)>;

struct FlatOptions {
  std::size_t alignment = kCacheLine; // of each tensor, in bytes
  Allocator allocate_data;            // null: torch's
  Allocator allocate_grad;            // null: torch's
};

// Moves the values of parameters into one buffer, and their gradients into
// another.
//
// Parameters stay the same tensors: modules, optimizers and copies of the
// handles use the new memory. Tensors that shared the old memory in other ways,
// such as p.data() or earlier views, keep the old memory. The buffers live as
// long as any tensor in them.
//
// collect_grads() moves dense gradients into the buffer; afterwards backward
// adds to them there, and torch's zero_grad() leaves them there. Sparse
// gradients stay where they are. Not thread-safe.
class FlatParameters {
 public:
  // Moves the values and existing gradients. Throws InvalidArgument if `params`
  // is empty, or if a parameter is not a dense tensor of floats on the CPU, has
  // another type than the first, or is listed twice.
  explicit FlatParameters(
      std::vector<at::Tensor> params, FlatOptions options = {});

  const std::vector<at::Tensor>& params() const { return params_; }
  const FlatLayout& layout() const { return layout_; }

  // The whole buffers, including the gaps between tensors, which are zero.
  const at::Tensor& data() const { return data_; }
  const at::Tensor& grad() const { return grad_; }

  // Elements [begin, end) of the buffers.
  at::Tensor data(std::int64_t begin, std::int64_t end) const;
  at::Tensor grad(std::int64_t begin, std::int64_t end) const;

  // A view of the buffer where the gradient of one parameter belongs, whether
  // or not the parameter has a gradient.
  const at::Tensor& grad_view(std::size_t index) const {
    return grad_views_[index];
  }

  // Gives every parameter a gradient in the buffer. New gradients are zero.
  void attach_grads();

  // Moves values and gradients that were replaced meanwhile back into the
  // buffers: values when a model was loaded, gradients by backward or by hand.
  // Parameters without a gradient stay without, and their part of the buffer is
  // zeroed. Cheap if everything is in place.
  void collect_params();
  void collect_grads();

  // Zeroes the whole buffer of gradients, and gradients outside of it.
  void zero_grad();

 private:
  void adopt_param(std::size_t index);
  void adopt_grad(std::size_t index);

  std::vector<at::Tensor> params_;
  FlatLayout layout_;
  at::Tensor data_;
  at::Tensor grad_;
  std::vector<at::Tensor> data_views_;
  std::vector<at::Tensor> grad_views_;
};

// Returns a FlatParameters for each type of parameter, in the order in which
// the types appear.
std::vector<FlatParameters> flatten_by_type(
    const std::vector<at::Tensor>& params, const FlatOptions& options = {});

// Splits the parameters into lists of one type, in the order in which the types
// appear.
std::vector<std::vector<at::Tensor>> split_by_type(
    const std::vector<at::Tensor>& params);

// Tensors that are views of one buffer.
struct FlatTensors {
  at::Tensor buffer;
  std::vector<at::Tensor> views;
};

// Zeros with the sizes and strides of each tensor of a list.
FlatTensors flat_zeros(
    const std::vector<at::Tensor>& like, c10::ScalarType type);

// Returns a tensor in `buffer` from element `begin` on with the sizes and
// strides of `like`. Autograd does not know it as a view, so that it can be a
// gradient.
at::Tensor alias(
    const at::Tensor& buffer, std::int64_t begin, const at::Tensor& like);

} // namespace argosy::optim
