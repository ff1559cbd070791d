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

// Holds the shards that a rank keeps: in memory, or in a file that is mapped
// into memory. A shard in a file keeps its address, and its pages leave memory
// while nobody needs them.
class ShardMemory {
 public:
  // Without `offload`, shards are in memory.
  explicit ShardMemory(const std::optional<offload::OffloadOptions>& offload);
  ~ShardMemory();

  // Returns a zeroed shard, which must not outlive this.
  at::Tensor make(std::int64_t count, c10::ScalarType type);

  // Brings the shard into memory if it is not there.
  void need(const at::Tensor& part);
  // Lets the shard leave memory. `written`: it has changed since need().
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
