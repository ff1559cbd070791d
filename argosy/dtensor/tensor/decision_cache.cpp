#include "argosy/dtensor/tensor/decision_cache.h"

#include <utility>

namespace argosy::dtensor {

namespace {

// Shapes may change forever; then the cache starts anew.
constexpr std::size_t kMostCalls = 1u << 16;

std::uint64_t next_number() {
  static std::atomic<std::uint64_t> next{0};
  return next++;
}

} // namespace

DecisionCache::DecisionCache() : number_(next_number()) {}

std::shared_ptr<const KnownCall> DecisionCache::find(
    const CallKey& key, std::uint64_t hash) const {
  const std::lock_guard lock(mutex_);
  const auto [first, last] = calls_.equal_range(hash);
  for (auto call = first; call != last; ++call) {
    if (call->second->key == key) {
      return call->second;
    }
  }
  return nullptr;
}

void DecisionCache::insert(std::shared_ptr<const KnownCall> call) {
  const std::lock_guard lock(mutex_);
  if (calls_.size() >= kMostCalls) {
    calls_.clear();
  }
  const std::uint64_t hash = call->key.hash();
  calls_.emplace(hash, std::move(call));
}

std::size_t DecisionCache::size() const {
  const std::lock_guard lock(mutex_);
  return calls_.size();
}

} // namespace argosy::dtensor
