#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include <cstddef>
#include <memory>
#include <vector>

namespace argosy::sharding {

// Gets notified of ops on tensors whose memory is not always there.
class MemoryWatch {
 public:
  virtual ~MemoryWatch() = default;

  // Called before an op on tensors in these memories, by number. They must be
  // there when it returns, and until the next call.
  virtual void before_use(const std::vector<std::size_t>& memories) = 0;

  // Called after an op that has written to a tensor in this memory.
  virtual void after_write(std::size_t memory) = 0;
};

// Returns a storage of `bytes` bytes without memory. The dispatcher reports
// every op on tensors in it to `watch` before it runs, also ops of backward on
// tensors that forward has saved. An op throws InvalidArgument if `watch` no
// longer exists.
c10::Storage watched_storage(
    std::size_t bytes, std::weak_ptr<MemoryWatch> watch, std::size_t memory);

// Sets the memory of the storage, which does not own it. Null: none.
void set_memory(const c10::Storage& storage, void* data);

// Moves an existing tensor, for all handles to it, into a watched storage, from
// element `begin` on. Keeps its sizes and strides. Does not copy values.
void move_into(
    const at::Tensor& tensor, const c10::Storage& storage, std::int64_t begin);

// Whether the tensor lies in a watched storage.
bool is_watched(const at::Tensor& tensor);

} // namespace argosy::sharding
