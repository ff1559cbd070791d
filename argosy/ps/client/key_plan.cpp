#include "argosy/ps/client/key_plan.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "argosy/common/error.h"

namespace argosy::ps {

namespace {

// Mixes all bits of a key: ids are often consecutive or multiples.
inline std::uint64_t mixed(std::uint64_t key) {
  key ^= key >> 32;
  key *= 0x9e3779b97f4a7c15ull;
  return key ^ (key >> 29);
}

} // namespace

KeyPlanner::KeyPlanner(const ShardMap& map)
    : shard_num_(map.shard_num), num_regions_(map.num_servers) {
  for (int shard = 0; shard < map.shard_num; ++shard) {
    region_of_shard_.push_back(
        static_cast<std::uint16_t>(shard / map.shards_per_server()));
  }
}

void KeyPlanner::find_unique(
    std::span<const std::uint64_t> batch, KeyPlan& plan) {
  const std::size_t num_slots =
      std::bit_ceil(std::max<std::size_t>(batch.size() * 2, 16));
  slots_.assign(num_slots, 0);
  unique_.clear();
  plan.position.resize(batch.size());
  const std::size_t mask = num_slots - 1;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const std::uint64_t key = batch[i];
    std::size_t slot = mixed(key) & mask;
    while (slots_[slot] != 0 && unique_[slots_[slot] - 1] != key) {
      slot = (slot + 1) & mask;
    }
    if (slots_[slot] == 0) {
      unique_.push_back(key);
      slots_[slot] = static_cast<std::uint32_t>(unique_.size());
    }
    plan.position[i] = slots_[slot] - 1;
  }
}

// A counting sort by region, which keeps the order within each.
void KeyPlanner::group(KeyPlan& plan) {
  const auto num_regions = static_cast<std::size_t>(num_regions_);
  const auto shard_num = static_cast<std::uint64_t>(shard_num_);
  plan.begin.assign(num_regions + 1, 0);
  region_.resize(unique_.size());
  for (std::size_t i = 0; i < unique_.size(); ++i) {
    region_[i] = region_of_shard_[unique_[i] % shard_num];
    ++plan.begin[region_[i] + 1u];
  }
  for (std::size_t r = 0; r < num_regions; ++r) {
    plan.begin[r + 1] += plan.begin[r];
  }
  std::vector<std::size_t> next(plan.begin.begin(), plan.begin.end() - 1);
  plan.keys.resize(unique_.size());
  target_.resize(unique_.size());
  for (std::size_t i = 0; i < unique_.size(); ++i) {
    const std::size_t at = next[region_[i]]++;
    plan.keys[at] = unique_[i];
    target_[i] = static_cast<std::uint32_t>(at);
  }
  for (std::uint32_t& position : plan.position) {
    position = target_[position];
  }
}

void KeyPlanner::plan(std::span<const std::uint64_t> batch, KeyPlan& plan) {
  ARGOSY_CHECK(
      batch.size() < (std::size_t{1} << 31),
      "[ps.client] {} keys in a batch, expected fewer than 2^31",
      batch.size());
  find_unique(batch, plan);
  if (num_regions_ == 1) {
    plan.begin.assign({0, unique_.size()});
    plan.keys.assign(unique_.begin(), unique_.end());
    return;
  }
  group(plan);
}

void sum_rows(
    const KeyPlan& plan,
    std::size_t dim,
    std::span<const float> batch,
    std::span<float> sums) {
  if (plan.keys.size() == plan.position.size()) {
    for (std::size_t i = 0; i < plan.position.size(); ++i) {
      const float* from = batch.data() + i * dim;
      float* to = sums.data() + plan.position[i] * dim;
      for (std::size_t d = 0; d < dim; ++d) {
        to[d] = 0.0f + from[d]; // as a sum: no negative zero
      }
    }
    return;
  }
  std::fill(sums.begin(), sums.end(), 0.0f);
  for (std::size_t i = 0; i < plan.position.size(); ++i) {
    const float* from = batch.data() + i * dim;
    float* to = sums.data() + plan.position[i] * dim;
    for (std::size_t d = 0; d < dim; ++d) {
      to[d] += from[d];
    }
  }
}

void spread_rows(
    const KeyPlan& plan,
    std::size_t begin,
    std::size_t end,
    std::size_t dim,
    const float* rows,
    std::span<float> batch) {
  for (std::size_t i = 0; i < plan.position.size(); ++i) {
    const std::size_t at = plan.position[i];
    if (at >= begin && at < end) {
      std::memcpy(
          batch.data() + i * dim,
          rows + (at - begin) * dim,
          dim * sizeof(float));
    }
  }
}

} // namespace argosy::ps
