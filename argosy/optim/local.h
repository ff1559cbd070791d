#pragma once

#include <vector>

namespace at {
class Tensor;
}

// Optimizers of parameters that are DTensors: each rank updates its local part.
namespace argosy::optim {

// The local part of a DTensor, or the tensor itself if it is a plain one. Valid
// as long as the tensor.
const at::Tensor& local_of(const at::Tensor& tensor);
std::vector<at::Tensor> locals_of(const std::vector<at::Tensor>& tensors);

// Reshards a gradient that is a DTensor to the placement of its parameter. All
// ranks of the mesh must call it; blocks if it has to communicate.
at::Tensor beside(const at::Tensor& grad, const at::Tensor& param);

// global_like() makes a tensor with the placement of `param` from a local part;
// local_like() returns the local part of a plain tensor or DTensor of the whole
// shape.
at::Tensor global_like(const at::Tensor& local, const at::Tensor& param);
at::Tensor local_like(const at::Tensor& global, const at::Tensor& param);

} // namespace argosy::optim
