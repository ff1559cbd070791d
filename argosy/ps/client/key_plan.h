#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "argosy/ps/table/shard_map.h"

namespace argosy::ps {

// The keys of a batch, each once, grouped by the region that holds them. A
// region is what ShardMap calls a server: consecutive shards.
struct KeyPlan {
  // One region after the other; within a region in the order of first
  // occurrence.
  std::vector<std::uint64_t> keys;
  std::vector<std::size_t> begin;      // of each region's keys, and the end
  std::vector<std::uint32_t> position; // of each key of the batch in `keys`

  std::span<const std::uint64_t> keys_of(int region) const {
    const auto p = static_cast<std::size_t>(region);
    return std::span(keys).subspan(begin[p], begin[p + 1] - begin[p]);
  }

  bool operator==(const KeyPlan&) const = default;
};

// Makes plans. Keeps its memory from plan to plan; one thread at a time.
class KeyPlanner {
 public:
  explicit KeyPlanner(const ShardMap& map);

  // Overwrites `plan`. Throws InvalidArgument for 2^31 keys or more.
  void plan(std::span<const std::uint64_t> batch, KeyPlan& plan);

 private:
  void find_unique(std::span<const std::uint64_t> batch, KeyPlan& plan);
  void group(KeyPlan& plan);

  int shard_num_;
  std::vector<std::uint16_t> region_of_shard_;
  int num_regions_;
  std::vector<std::uint32_t> slots_; // 1 + an index of unique_; 0: empty
  std::vector<std::uint64_t> unique_;
  std::vector<std::uint16_t> region_;
  std::vector<std::uint32_t> target_; // where unique_ goes in the plan
};

// Adds up the rows of `batch` that have one position, in the order of the
// batch, so that all runs add in the same order. `sums` has plan.keys.size()
// rows of `dim` and is overwritten.
void sum_rows(
    const KeyPlan& plan,
    std::size_t dim,
    std::span<const float> batch,
    std::span<float> sums);

// Copies the rows of keys [begin, end) of the plan to where the batch has them.
// `rows` begins with that of `begin`.
void spread_rows(
    const KeyPlan& plan,
    std::size_t begin,
    std::size_t end,
    std::size_t dim,
    const float* rows,
    std::span<float> batch);

} // namespace argosy::ps
