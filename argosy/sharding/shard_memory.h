#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "argosy/offload/options.h"

namespace argosy::offload {
class OffloadTier;
}

namespace argosy::sharding {

// Where the parts are that a rank keeps: in memory, or in a file that is mapped
// into it, so that a part has one address always and its pages leave while
// nobody needs them.
class ShardMemory {
 public:
  // None: in memory.
  explicit ShardMemory(const std::optional<offload::OffloadOptions>& offload);
  ~ShardMemory();

  // Zeros, not to outlive this.
  at::Tensor make(std::int64_t count, c10::ScalarType type);

  // Brings it into memory, if it is not there.
  void need(const at::Tensor& part);
  void let_go(const at::Tensor& part, bool written);

 private:
  struct Slot {
    std::size_t number = 0;
    bool is_here = true;
  };

  std::unique_ptr<offload::OffloadTier> tier_; // null: in memory
  std::map<const void*, Slot> slots_;          // by address
};

} // namespace argosy::sharding
