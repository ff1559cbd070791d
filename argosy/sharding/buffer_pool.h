#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <list>

#include "argosy/comm/ops.h"

namespace argosy::sharding {

// Buffers for what is whole only for a while, taken again and again: fresh
// memory of the system is slower than the work that is done in it.
class BufferPool {
 public:
  // Makes `num` buffers, which lie where the ranks of the group can read each
  // other's. A collective call.
  void add(
      int num, std::int64_t count, c10::ScalarType type, const GroupPtr& group);

  // The first `count` elements of a buffer that nobody has. When all are taken,
  // of ordinary memory, which is not kept.
  at::Tensor take(std::int64_t count, c10::ScalarType type);
  void give(const at::Tensor& taken);

 private:
  struct Buffer {
    at::Tensor memory;
    bool is_free = true;
    bool is_extra = false;
  };
  std::list<Buffer> buffers_;
};

} // namespace argosy::sharding
