#pragma once

#include <vector>

namespace at {
class Tensor;
}

// DTensors among parameters: each rank steps on its own part.
namespace argosy::optim {

// What this rank has of a tensor: of a DTensor its part, else the tensor. Lives
// as long as the tensor.
const at::Tensor& local_of(const at::Tensor& tensor);
std::vector<at::Tensor> locals_of(const std::vector<at::Tensor>& tensors);

// A gradient that is a DTensor, where its parameter is. All ranks of the mesh
// must call it; blocks when it has to be moved or reduced.
at::Tensor beside(const at::Tensor& grad, const at::Tensor& param);

// A part that belongs to a parameter as a tensor like it; the other way round,
// from a tensor like it, plain or not.
at::Tensor global_like(const at::Tensor& local, const at::Tensor& param);
at::Tensor local_like(const at::Tensor& global, const at::Tensor& param);

} // namespace argosy::optim
