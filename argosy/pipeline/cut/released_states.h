#pragma once

#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

// Parameters and buffers without values: those of other stages. Not installed.
namespace argosy::pipeline {

// Releases a tensor's memory: all handles to it become meta tensors. A DTensor
// stays one, with its place and its hooks; its part becomes a meta tensor.
void release_values(const at::Tensor& tensor);

// From now on, who asks a released tensor for its memory gets an error that
// says where it is. Views cannot be made of it any more. Does nothing for
// DTensors, which refuse by themselves.
void refuse_memory(const at::Tensor& tensor);

// Materializes a tensor that was made under DeferredInit; does nothing for
// others. The calling thread must be a rank.
void materialize_values(const at::Tensor& tensor);

// Substitutes zeros for tensors without values while it is alive. The zeros
// take no memory unless they are written.
class ZeroPlaceholders {
 public:
  ZeroPlaceholders() = default;
  ~ZeroPlaceholders();
  ZeroPlaceholders(const ZeroPlaceholders&) = delete;
  ZeroPlaceholders& operator=(const ZeroPlaceholders&) = delete;

  void add(const at::Tensor& tensor);

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> away_; // and what it was
};

} // namespace argosy::pipeline
