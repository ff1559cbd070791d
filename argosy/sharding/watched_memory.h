#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include <cstddef>
#include <memory>
#include <string>
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

  // Called instead of `tensor.set_(value)`, by which torch::load() would give a
  // tensor in this memory another one: takes the values.
  virtual void take_value(
      std::size_t memory,
      const at::Tensor& tensor,
      const at::Tensor& value) = 0;

  // Called before torch::save() writes tensors in watched memory, with the name
  // of the first. Throws unless all of it is there.
  virtual void before_save(const std::string& name) const = 0;
};

// Returns a storage of `bytes` bytes without memory; torch_hooks::set_memory()
// gives it some. The dispatcher reports every op on tensors in it to `watch`
// before it runs, also ops of backward on tensors that forward has saved. An op
// throws InvalidArgument if `watch` no longer exists. Throws InvalidArgument
// when the hook `intercept` is switched off.
c10::Storage watched_storage(
    std::size_t bytes, std::weak_ptr<MemoryWatch> watch, std::size_t memory);

// Moves an existing tensor, for all handles to it, into a watched storage, from
// element `begin` on. Keeps its sizes and strides. Does not copy values.
void move_into(
    const at::Tensor& tensor, const c10::Storage& storage, std::int64_t begin);

// Whether the tensor lies in a watched storage.
bool is_watched(const at::Tensor& tensor);

} // namespace argosy::sharding
