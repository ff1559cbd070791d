#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <list>

#include "argosy/comm/ops.h"

namespace argosy::sharding {

// Keeps buffers for parameters and gradients that are whole only for a short
// time. Memory that is new from the system would cost more than the work done
// in it.
class BufferPool {
 public:
  // Collective: adds `num` buffers in memory that the ranks of the group share,
  // where they can.
  void add(
      int num, std::int64_t count, c10::ScalarType type, const GroupPtr& group);

  // Returns the first `count` elements of a free buffer. If none is free,
  // allocates ordinary memory, which give() releases.
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
