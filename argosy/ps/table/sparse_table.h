#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "argosy/ps/table/partition.h"
#include "argosy/ps/table/shard_map.h"

namespace argosy::ps {

// A batch of keys, grouped by partition: those of partition p are
// keys[i] for i in order[offsets[p] .. offsets[p + 1]), in their old order.
struct KeyGroups {
  std::vector<std::uint32_t> order;
  std::vector<std::uint32_t> offsets; // one more than there are partitions

  std::span<const std::uint32_t> group(int partition) const {
    const auto begin = offsets[static_cast<std::size_t>(partition)];
    const auto end = offsets[static_cast<std::size_t>(partition) + 1];
    return std::span(order).subspan(begin, end - begin);
  }
};

// The part of a sparse table that one server holds: its shards, spread over
// partitions. pull(), push() and the like run on the calling thread; a server
// instead groups keys and gives each group to the thread that owns the
// partition.
class SparseTable {
 public:
  // shard_num of the map is the config's. Throws as Partition does.
  SparseTable(const SparseConfig& config, int num_servers = 1, int server = 0);

  const SparseConfig& config() const { return config_; }
  const RowLayout& layout() const { return partitions_[0]->layout(); }
  const ShardMap& shard_map() const { return shard_map_; }
  int server() const { return server_; }
  int num_partitions() const { return static_cast<int>(partitions_.size()); }
  Partition& partition(int index) { return *partitions_[index]; }

  // partition = shard % num_partitions.
  int partition_of(std::uint64_t key) const {
    return shard_map_.shard_of(key) % num_partitions();
  }

  // Throws InvalidArgument, naming the key, its shard and its server, if a key
  // belongs to another server.
  KeyGroups group(std::span<const std::uint64_t> keys) const;

  void pull(
      std::span<const std::uint64_t> keys,
      std::span<float> values,
      bool create = true);
  void push(
      std::span<const std::uint64_t> keys, std::span<const float> records);
  void set_learning_rate(float rate);
  void shrink();
  void end_day();
  void clear();
  PartitionStat stat() const;

  // Of all partitions; slices are read from each.
  void begin_snapshot(SaveMode mode);
  void commit_snapshot();
  void abort_snapshot();

 private:
  const SparseConfig config_;
  const ShardMap shard_map_;
  const int server_;
  std::vector<std::unique_ptr<Partition>> partitions_;
};

} // namespace argosy::ps
