#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include <cstddef>
#include <memory>
#include <vector>

namespace argosy::sharding {

// Told of ops on tensors whose memory comes and goes.
class MemoryWatch {
 public:
  virtual ~MemoryWatch() = default;

  // Before an op on tensors in these memories, by number: they must be there
  // when it returns, and until the next call.
  virtual void before_use(const std::vector<std::size_t>& memories) = 0;

  // After an op that wrote to a tensor in one.
  virtual void after_write(std::size_t memory) = 0;
};

// Makes a storage of so many bytes that has no memory yet: give it some with
// torch_hooks::set_memory(). Before an op on a tensor in this storage, also an
// op of backward on what forward has saved, LibTorch calls `watch`. The op
// throws InvalidArgument when the watch is gone. Throws InvalidArgument when
// the hook `intercept` is switched off.
c10::Storage watched_storage(
    std::size_t bytes, std::weak_ptr<MemoryWatch> watch, std::size_t memory);

// Makes an existing tensor, for all who hold it, one that lies in a watched
// storage from element `begin` on, with the sizes and strides that it has.
void move_into(
    const at::Tensor& tensor, const c10::Storage& storage, std::int64_t begin);

// Whether a tensor lies in a watched storage.
bool is_watched(const at::Tensor& tensor);

} // namespace argosy::sharding
