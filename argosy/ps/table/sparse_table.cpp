#include "argosy/ps/table/sparse_table.h"

#include <algorithm>

#include "argosy/common/error.h"

namespace argosy::ps {

SparseTable::SparseTable(
    const SparseConfig& config, int num_servers, int server)
    : config_(config),
      shard_map_{config.shard_num, num_servers},
      server_(server) {
  check(config);
  ARGOSY_CHECK(
      num_servers > 0 && server >= 0 && server < num_servers,
      "[ps.table] table '{}': server {} of {}, expected 0 to servers - 1",
      config.name,
      server,
      num_servers);
  for (int i = 0; i < config.num_partitions; ++i) {
    partitions_.push_back(std::make_unique<Partition>(config, i));
  }
}

KeyGroups SparseTable::group(std::span<const std::uint64_t> keys) const {
  const int first = shard_map_.first_shard(server_);
  const int end = shard_map_.end_shard(server_);
  std::vector<std::uint32_t> parts(keys.size());
  KeyGroups groups;
  groups.offsets.assign(partitions_.size() + 1, 0);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const int shard = shard_map_.shard_of(keys[i]);
    ARGOSY_CHECK(
        shard >= first && shard < end,
        "[ps.table] table '{}': key {} is in shard {} of server {}, expected "
        "shards {} to {} of server {}",
        config_.name,
        keys[i],
        shard,
        shard_map_.server_of(keys[i]),
        first,
        end - 1,
        server_);
    parts[i] = static_cast<std::uint32_t>(shard % num_partitions());
    ++groups.offsets[parts[i] + 1];
  }
  for (std::size_t p = 0; p < partitions_.size(); ++p) {
    groups.offsets[p + 1] += groups.offsets[p];
  }
  std::vector<std::uint32_t> next = groups.offsets;
  groups.order.resize(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    groups.order[next[parts[i]]++] = static_cast<std::uint32_t>(i);
  }
  return groups;
}

void SparseTable::pull(
    std::span<const std::uint64_t> keys, std::span<float> values, bool create) {
  const auto dim = static_cast<std::size_t>(layout().pull_dim);
  check_floats(config_, "pull", keys.size(), values.size(), dim);
  const KeyGroups groups = group(keys);
  std::vector<std::uint64_t> part_keys;
  std::vector<float> part_values;
  for (int p = 0; p < num_partitions(); ++p) {
    const auto members = groups.group(p);
    part_keys.clear();
    for (const std::uint32_t i : members) {
      part_keys.push_back(keys[i]);
    }
    part_values.resize(members.size() * dim);
    partition(p).pull(part_keys, part_values, create);
    for (std::size_t j = 0; j < members.size(); ++j) {
      std::copy_n(&part_values[j * dim], dim, &values[members[j] * dim]);
    }
  }
}

void SparseTable::push(
    std::span<const std::uint64_t> keys, std::span<const float> records) {
  const auto dim = static_cast<std::size_t>(layout().push_dim);
  check_floats(config_, "push", keys.size(), records.size(), dim);
  const KeyGroups groups = group(keys);
  std::vector<std::uint64_t> part_keys;
  std::vector<float> part_records;
  for (int p = 0; p < num_partitions(); ++p) {
    part_keys.clear();
    part_records.clear();
    for (const std::uint32_t i : groups.group(p)) {
      part_keys.push_back(keys[i]);
      const auto record = records.subspan(i * dim, dim);
      part_records.insert(part_records.end(), record.begin(), record.end());
    }
    partition(p).push(part_keys, part_records);
  }
}

void SparseTable::set_learning_rate(float rate) {
  for (const auto& partition : partitions_) {
    partition->set_learning_rate(rate);
  }
}

void SparseTable::shrink() {
  for (const auto& partition : partitions_) {
    partition->shrink();
  }
}

void SparseTable::begin_snapshot(SaveMode mode) {
  for (const auto& partition : partitions_) {
    partition->begin_snapshot(mode);
  }
}

void SparseTable::commit_snapshot() {
  for (const auto& partition : partitions_) {
    partition->commit_snapshot();
  }
}

void SparseTable::abort_snapshot() {
  for (const auto& partition : partitions_) {
    partition->abort_snapshot();
  }
}

void SparseTable::end_day() {
  for (const auto& partition : partitions_) {
    partition->end_day();
  }
}

void SparseTable::clear() {
  for (const auto& partition : partitions_) {
    partition->clear();
  }
}

PartitionStat SparseTable::stat() const {
  PartitionStat sum;
  for (const auto& partition : partitions_) {
    sum += partition->stat();
  }
  return sum;
}

} // namespace argosy::ps
