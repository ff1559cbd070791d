#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "argosy/ps/table/pages.h"

namespace argosy::ps {

// A set of keys that may say yes by mistake, and never says no by mistake: a
// Bloom filter whose keys set all their bits in one half of a cache line. It
// grows in layers, each for twice as many keys as the one before, so nothing
// is ever moved: 10 to 20 bits a key, and about 1 % of mistakes a layer.
class KeyFilter {
 public:
  void add(std::uint64_t key);

  bool may_contain(std::uint64_t key) const;

  // Removes the keys that are not in it, and keeps the order of the others.
  void keep_contained(std::vector<std::uint64_t>& keys) const;

  std::size_t memory_bytes() const;

 private:
  class Layer {
   public:
    explicit Layer(std::size_t keys);
    void add(std::uint64_t hash);
    bool may_contain(std::uint64_t hash) const;
    void prefetch(std::uint64_t hash) const { __builtin_prefetch(block(hash)); }
    bool full() const { return added_ == capacity_; }
    std::size_t bytes() const { return pages_.size(); }

   private:
    std::uint32_t* block(std::uint64_t hash) const;

    std::size_t capacity_;
    std::size_t added_ = 0;
    std::size_t num_blocks_;
    Pages pages_;
  };

  std::vector<Layer> layers_; // all but the last are full
};

} // namespace argosy::ps
