#include "argosy/sharding/buffer_pool.h"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "argosy/common/error.h"
#include "argosy/data_parallel/bucket_memory.h"

namespace argosy::sharding {

void BufferPool::add(
    int num, std::int64_t count, c10::ScalarType type, const GroupPtr& group) {
  for (int i = 0; i < num && count > 0; ++i) {
    buffers_.push_back({data_parallel::bucket_memory(count, type, group)});
  }
}

at::Tensor BufferPool::take(std::int64_t count, c10::ScalarType type) {
  for (Buffer& buffer : buffers_) {
    if (buffer.is_free && buffer.memory.scalar_type() == type &&
        buffer.memory.numel() >= count) {
      buffer.is_free = false;
      return buffer.memory.narrow(0, 0, count);
    }
  }
  // Ordinary memory: shared memory is a collective allocation, and the other
  // ranks may not need a buffer now.
  buffers_.push_back({at::empty({count}, type), false, true});
  return buffers_.back().memory.narrow(0, 0, count);
}

void BufferPool::give(const at::Tensor& taken) {
  const auto found = std::ranges::find_if(buffers_, [&](const Buffer& buffer) {
    return buffer.memory.is_alias_of(taken);
  });
  if (found == buffers_.end()) {
    throw InternalError("[sharding] the buffer does not belong to the pool");
  }
  found->is_free = true;
  // Extra buffers do not stay: the pool's size bounds what sharding adds to the
  // memory of a rank between peaks.
  if (found->is_extra) {
    buffers_.erase(found);
  }
}

} // namespace argosy::sharding
