#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "argosy/optim/flat_layout.h"

namespace argosy::optim {

// Makes a contiguous tensor on the CPU, aligned as the layout asks.
using Allocator =
    std::function<at::Tensor(at::IntArrayRef sizes, c10::ScalarType dtype)>;

struct FlatOptions {
  std::size_t alignment = kCacheLine; // of each tensor, in bytes
  Allocator allocate_data;            // null: torch's
  Allocator allocate_grad;            // null: torch's
};

// Parameters whose values lie in one buffer, and their gradients in another.
//
// A parameter stays the same tensor: modules, optimizers and copies of the
// handle go on with the new memory. What does not is memory shared in other
// ways, as by p.data() or a view taken before. The buffers live as long as any
// tensor in them.
//
// A dense gradient moves into the buffer by collect_grads(); from then on
// backward adds to it there, and zero_grad() of torch leaves it there. Sparse
// gradients stay what they are. Not thread-safe.
class FlatParameters {
 public:
  // Moves the values. Gradients that exist move too. Throws InvalidArgument
  // when there is no parameter, or one is not a dense tensor of floats on the
  // CPU, has another type than the first, or is there twice.
  explicit FlatParameters(
      std::vector<at::Tensor> params, FlatOptions options = {});

  const std::vector<at::Tensor>& params() const { return params_; }
  const FlatLayout& layout() const { return layout_; }

  // All of it, gaps between tensors included. Gaps are zero.
  const at::Tensor& data() const { return data_; }
  const at::Tensor& grad() const { return grad_; }

  // Elements [begin, end) of the buffers.
  at::Tensor data(std::int64_t begin, std::int64_t end) const;
  at::Tensor grad(std::int64_t begin, std::int64_t end) const;

  // The place of one parameter's gradient in the buffer, whether it is there
  // or not.
  const at::Tensor& grad_view(std::size_t index) const {
    return grad_views_[index];
  }

  // Gives every parameter a gradient in the buffer; new ones are zero.
  void attach_grads();

  // Moves back into the buffers what was replaced since: values by loading a
  // model, gradients by backward or by hand. Parameters without gradient stay
  // so, and their places in the buffer are zero. Cheap when all is in place.
  void collect_params();
  void collect_grads();

  // Sets the whole buffer of gradients to zero, and gradients outside too.
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

// One for each type among the parameters, in the order in which types appear.
std::vector<FlatParameters> flatten_by_type(
    const std::vector<at::Tensor>& params, const FlatOptions& options = {});

// The parameters in lists of one type, in the order in which types appear.
std::vector<std::vector<at::Tensor>> split_by_type(
    const std::vector<at::Tensor>& params);

// Tensors in one buffer.
struct FlatTensors {
  at::Tensor buffer;
  std::vector<at::Tensor> views;
};

// Zeros with the shape and the order in memory of each tensor of a list.
FlatTensors flat_zeros(
    const std::vector<at::Tensor>& like, c10::ScalarType type);

// A tensor in `buffer` from element `begin` on with the shape and the order in
// memory of `like`. It is no view to autograd, so that it can be a gradient.
at::Tensor alias(
    const at::Tensor& buffer, std::int64_t begin, const at::Tensor& like);

} // namespace argosy::optim
