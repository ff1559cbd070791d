#include "argosy/ps/table/geo_recorder.h"

#include <algorithm>
#include <utility>

#include "argosy/common/error.h"

namespace argosy::ps {

namespace {

constexpr std::size_t kFewKeys = 1024;

} // namespace

GeoRecorder::GeoRecorder(int num_trainers)
    : changed_(static_cast<std::size_t>(std::max(num_trainers, 0))),
      limits_(changed_.size(), kFewKeys) {
  ARGOSY_CHECK(
      num_trainers > 0,
      "[ps.geo] {} trainers, expected at least 1",
      num_trainers);
}

std::vector<std::uint64_t>& GeoRecorder::keys_for(int trainer) {
  ARGOSY_CHECK(
      trainer >= 0 && trainer < static_cast<int>(changed_.size()),
      "[ps.geo] trainer {}, expected 0 to {}",
      trainer,
      changed_.size() - 1);
  return changed_[static_cast<std::size_t>(trainer)];
}

void GeoRecorder::deduplicate(std::vector<std::uint64_t>& keys) {
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
}

// A trainer that seldom asks must not cost more than the rows there are: its
// list is deduplicated whenever it has doubled.
void GeoRecorder::record(int trainer, std::span<const std::uint64_t> keys) {
  const std::vector<std::uint64_t>& own = keys_for(trainer);
  for (std::size_t i = 0; i < changed_.size(); ++i) {
    std::vector<std::uint64_t>& waiting = changed_[i];
    if (&waiting == &own) {
      continue;
    }
    waiting.insert(waiting.end(), keys.begin(), keys.end());
    if (waiting.size() > limits_[i]) {
      deduplicate(waiting);
      limits_[i] = std::max(kFewKeys, 2 * waiting.size());
    }
  }
}

std::vector<std::uint64_t> GeoRecorder::take(int trainer) {
  std::vector<std::uint64_t> keys = std::exchange(keys_for(trainer), {});
  deduplicate(keys);
  limits_[static_cast<std::size_t>(trainer)] = kFewKeys;
  return keys;
}

std::size_t GeoRecorder::waiting(int trainer) const {
  return const_cast<GeoRecorder*>(this)->keys_for(trainer).size();
}

} // namespace argosy::ps
