#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <unordered_map>

namespace argosy::parallel {

// Large blocks of memory that are kept for the next who asks, in huge pages
// where the system gives them. A training step asks for the same blocks again
// and again, and fresh pages of the system cost more than what is computed in
// them by cheap operations.
//
// Holds at most twice what was in use at the same time, and kSpare; what was
// not used for the longest time goes first. Thread-safe.
class BlockCache {
 public:
  // Smaller blocks are the business of malloc, which keeps those.
  static constexpr std::size_t kLeast = std::size_t{64} << 10;
  static constexpr std::size_t kAlignment = kLeast; // of blocks
  static constexpr std::size_t kSpare = std::size_t{64} << 20;

  struct Stats {
    std::size_t in_use = 0; // bytes
    std::size_t most = 0;   // of in_use so far
    std::size_t held = 0;   // bytes: in_use, and what is kept
    std::size_t mapped = 0; // blocks asked of the system so far
  };

  BlockCache() = default;
  ~BlockCache(); // unmaps also what is in use
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;

  // Null when the system has no more.
  void* take(std::size_t bytes);

  // Whether it is a block of this cache that is in use.
  bool give_back(void* block);

  Stats stats() const;

 private:
  struct Kept {
    void* block;
    std::size_t since; // number of the call that gave it back
  };

  void* take_kept(std::size_t size);
  void* map_new(std::size_t size);
  void trim(std::size_t coming);
  void note_use(void* block, std::size_t size);

  mutable std::mutex mutex_;              // guards all
  std::multimap<std::size_t, Kept> kept_; // by size
  std::unordered_map<void*, std::size_t> used_;
  std::size_t calls_ = 0; // of give_back()
  Stats stats_;
};

} // namespace argosy::parallel
