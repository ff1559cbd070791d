#include "argosy/heap/free_space.h"

#include <algorithm>
#include <iterator>

#include "argosy/common/error.h"

namespace argosy::heap {

FreeSpace::FreeSpace(std::size_t bytes) {
  add(0, {bytes, 0});
}

void FreeSpace::add(std::size_t begin, Free part) {
  free_.emplace(begin, part);
  by_bytes_.emplace(part.bytes, begin);
  idle_ += part.idle;
}

FreeSpace::Free FreeSpace::remove(Frees::iterator part) {
  const Free removed = part->second;
  by_bytes_.erase({removed.bytes, part->first});
  idle_ -= removed.idle;
  free_.erase(part);
  return removed;
}

// Best fit in O(log n): the shortest free range that is long enough; of equal
// ones the first.
std::optional<std::size_t> FreeSpace::take(std::size_t bytes) {
  const auto fits = by_bytes_.lower_bound({bytes, 0});
  if (bytes == 0 || fits == by_bytes_.end()) {
    return std::nullopt;
  }
  const std::size_t begin = fits->second;
  const Free part = remove(free_.find(begin));
  if (part.bytes > bytes) {
    const std::size_t idle = part.idle > bytes ? part.idle - bytes : 0;
    add(begin + bytes, {part.bytes - bytes, idle});
  }
  taken_.emplace(begin, bytes);
  used_ += bytes;
  most_used_ = std::max(most_used_, used_);
  return begin;
}

// Joins the range with its free neighbors, so no two free ranges ever touch.
void FreeSpace::give_back(std::size_t begin) {
  const auto taken = taken_.find(begin);
  ARGOSY_ASSERT(taken != taken_.end(), begin);
  Free part{taken->second, taken->second};
  taken_.erase(taken);
  used_ -= part.bytes;
  const auto join = [&part](const Free& other) {
    part.bytes += other.bytes;
    part.idle += other.idle;
  };
  const auto next = free_.find(begin + part.bytes);
  if (next != free_.end()) {
    join(remove(next));
  }
  const auto after = free_.lower_bound(begin);
  if (after != free_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second.bytes == begin) {
      begin = before->first;
      join(remove(before));
    }
  }
  add(begin, part);
}

std::vector<Range> FreeSpace::drop_pages(std::size_t keep) {
  std::vector<std::pair<std::size_t, std::size_t>> parts; // (idle, begin)
  for (const auto& [begin, part] : free_) {
    if (part.idle > 0) {
      parts.emplace_back(part.idle, begin);
    }
  }
  std::sort(parts.rbegin(), parts.rend());
  std::vector<Range> dropped;
  for (const auto& [idle, begin] : parts) {
    if (idle_ <= keep) {
      break;
    }
    Free& part = free_.at(begin);
    idle_ -= part.idle;
    part.idle = 0;
    dropped.push_back({begin, part.bytes});
  }
  return dropped;
}

} // namespace argosy::heap
