#include "argosy/parallel/memory/block_cache.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>

namespace argosy::parallel {

namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

// A block may be so much larger than asked for.
constexpr std::size_t with_slack(std::size_t bytes) {
  return bytes + bytes / 4;
}

// Whole huge pages, from the size on where that wastes little.
std::size_t rounded(std::size_t bytes) {
  const std::size_t grain =
      bytes >= 4 * kHugePage ? kHugePage : BlockCache::kAlignment;
  return (bytes + grain - 1) / grain * grain;
}

std::byte* aligned(void* memory, std::size_t alignment) {
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  return reinterpret_cast<std::byte*>(
      (begin + alignment - 1) / alignment * alignment);
}

// Null when there is none.
void* map_aligned(std::size_t size) {
  const std::size_t alignment =
      size >= kHugePage ? kHugePage : BlockCache::kAlignment;
  const std::size_t more = size + alignment;
  void* const memory = ::mmap(
      nullptr,
      more,
      PROT_READ | PROT_WRITE,
      MAP_PRIVATE | MAP_ANONYMOUS,
      -1,
      0);
  if (memory == MAP_FAILED) {
    return nullptr;
  }
  auto* const begin = static_cast<std::byte*>(memory);
  std::byte* const block = aligned(memory, alignment);
  if (block != begin) {
    ::munmap(begin, static_cast<std::size_t>(block - begin));
  }
  if (block + size != begin + more) {
    ::munmap(
        block + size, static_cast<std::size_t>(begin + more - block) - size);
  }
  if (size >= kHugePage) {
    ::madvise(block, size, MADV_HUGEPAGE); // refused, pages stay small
  }
  return block;
}

} // namespace

BlockCache::~BlockCache() {
  for (const auto& [size, kept] : kept_) {
    ::munmap(kept.block, size);
  }
  for (const auto& [block, size] : used_) {
    ::munmap(block, size);
  }
}

void* BlockCache::take(std::size_t bytes) {
  const std::size_t size = rounded(bytes);
  const std::lock_guard lock(mutex_);
  void* const block = take_kept(size);
  return block != nullptr ? block : map_new(size);
}

// The smallest that suffices, unless it wastes too much.
void* BlockCache::take_kept(std::size_t size) {
  const auto found = kept_.lower_bound(size);
  if (found == kept_.end() || found->first > with_slack(size)) {
    return nullptr;
  }
  void* const block = found->second.block;
  note_use(block, found->first);
  kept_.erase(found);
  return block;
}

void* BlockCache::map_new(std::size_t size) {
  trim(size);
  void* const block = map_aligned(size);
  if (block == nullptr) {
    return nullptr;
  }
  note_use(block, size);
  stats_.held += size;
  ++stats_.mapped;
  return block;
}

void BlockCache::note_use(void* block, std::size_t size) {
  used_[block] = size;
  stats_.in_use += size;
  stats_.most = std::max(stats_.most, stats_.in_use);
}

// Makes room for a block: sizes that nobody asks for any more must go.
void BlockCache::trim(std::size_t coming) {
  const std::size_t most = std::max(stats_.most, stats_.in_use + coming);
  while (!kept_.empty() && stats_.held + coming > 2 * most + kSpare) {
    const auto oldest = std::min_element(
        kept_.begin(), kept_.end(), [](const auto& a, const auto& b) {
          return a.second.since < b.second.since;
        });
    ::munmap(oldest->second.block, oldest->first);
    stats_.held -= oldest->first;
    kept_.erase(oldest);
  }
}

bool BlockCache::give_back(void* block) {
  const std::lock_guard lock(mutex_);
  const auto found = used_.find(block);
  if (found == used_.end()) {
    return false;
  }
  stats_.in_use -= found->second;
  kept_.emplace(found->second, Kept{block, ++calls_});
  used_.erase(found);
  return true;
}

BlockCache::Stats BlockCache::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

} // namespace argosy::parallel
