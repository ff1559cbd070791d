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

// A storage of so many bytes without memory. Ops on tensors in it are told to
// `watch` first, also those of backward on what forward has saved: the
// dispatcher brings them to us, above autograd. Throws InvalidArgument from the
// op when the watch is gone.
c10::Storage watched_storage(
    std::size_t bytes, std::weak_ptr<MemoryWatch> watch, std::size_t memory);

// What the storage has from now on; null for none. Does not own it.
void set_memory(const c10::Storage& storage, void* data);

// An existing tensor, for all who hold it, lies in a watched storage from now
// on, from element `begin`, with the shape and order in memory that it has.
void move_into(
    const at::Tensor& tensor, const c10::Storage& storage, std::int64_t begin);

// Whether it lies in one.
bool is_watched(const at::Tensor& tensor);

} // namespace argosy::sharding
