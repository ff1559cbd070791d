#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <vector>

#include "argosy/sharding/shard_memory.h"

// Parts of DTensors in a file that is mapped into memory. Not installed.
namespace argosy::semi_auto {

class OffloadedParts {
 public:
  explicit OffloadedParts(const offload::OffloadOptions& options)
      : memory_(std::make_shared<sharding::ShardMemory>(options)) {}

  // Moves this rank's part of the DTensor to the file, for all who hold the
  // DTensor. Its pages may leave memory after let_go() and come back when
  // somebody reads them.
  void move(const at::Tensor& dtensor);

  // Copies this rank's part of a gradient of `parameter` to the file, unless it
  // is there, and lets its pages go. The gradient must be gone before the next
  // one of this parameter comes, or that one must be added to it in place.
  void take(at::Tensor& gradient, const at::Tensor& parameter);

  // Of all that was moved.
  void let_go();

 private:
  at::Tensor make(const at::Tensor& like);

  const std::shared_ptr<sharding::ShardMemory> memory_; // tensors hold it, too
  std::vector<at::Tensor> moved_;
  std::map<const void*, at::Tensor> gradients_; // by parameter
};

} // namespace argosy::semi_auto
