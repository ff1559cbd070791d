#include "argosy/ps/client/row_cache.h"

#include <algorithm>

#include "argosy/common/error.h"

namespace argosy::ps {

RowCache::RowCache(
    std::size_t capacity, std::int64_t max_age, std::size_t width)
    : capacity_(capacity), max_age_(max_age), width_(width) {
  ARGOSY_CHECK(
      capacity >= 1 && max_age >= 0,
      "[ps.cache] {} rows for {} steps, expected at least 1 row and 0 steps",
      capacity,
      max_age);
}

bool RowCache::find(
    std::uint64_t key, std::int64_t step, std::span<float> row) {
  const auto found = index_.find(key);
  if (found == index_.end() || step - found->second->step > max_age_) {
    ++misses_;
    return false;
  }
  rows_.splice(rows_.begin(), rows_, found->second);
  std::copy(
      rows_.front().values.begin(), rows_.front().values.end(), row.begin());
  oldest_hit_ = std::max(oldest_hit_, step - rows_.front().step);
  ++hits_;
  return true;
}

void RowCache::put(
    std::uint64_t key, std::int64_t step, std::span<const float> row) {
  ARGOSY_ASSERT(row.size() == width_);
  if (const auto found = index_.find(key); found != index_.end()) {
    rows_.splice(rows_.begin(), rows_, found->second);
  } else {
    if (rows_.size() >= capacity_) {
      index_.erase(rows_.back().key);
      rows_.pop_back();
    }
    rows_.push_front({key});
    index_[key] = rows_.begin();
  }
  rows_.front().step = step;
  rows_.front().values.assign(row.begin(), row.end());
}

} // namespace argosy::ps
