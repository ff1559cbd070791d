#include "argosy/dtensor/tensor/decision_cache.h"

#include <utility>

namespace argosy::dtensor {

namespace {

// Shapes may change forever; then the cache starts anew.
constexpr std::size_t kMostEntries = 1u << 16;

} // namespace

std::shared_ptr<const Decision> DecisionCache::find(const CallKey& key) const {
  const std::lock_guard lock(mutex_);
  const Entry*& recent = recent_[key.hash() % recent_.size()];
  if (recent != nullptr && recent->key == key) {
    return recent->decision;
  }
  const auto [first, last] = entries_.equal_range(key.hash());
  for (auto entry = first; entry != last; ++entry) {
    if (entry->second.key == key) {
      recent = &entry->second;
      return recent->decision;
    }
  }
  return nullptr;
}

std::shared_ptr<const Decision> DecisionCache::insert(
    CallKey key, Decision decision) {
  auto shared = std::make_shared<const Decision>(std::move(decision));
  const std::lock_guard lock(mutex_);
  if (entries_.size() >= kMostEntries) {
    entries_.clear();
    recent_.fill(nullptr);
  }
  const std::uint64_t hash = key.hash();
  entries_.emplace(hash, Entry{std::move(key), shared});
  return shared;
}

std::size_t DecisionCache::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

} // namespace argosy::dtensor
