#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

namespace argosy::heap {

struct Range {
  std::size_t begin = 0;
  std::size_t bytes = 0;
};

// Tracks which ranges of an address range are in use, without touching the
// memory. Allocation is best fit, so that recently used memory, which has
// pages, is reused before untouched memory.
class FreeSpace {
 public:
  explicit FreeSpace(std::size_t bytes);

  // Returns the begin of a range; nullopt if none is large enough.
  std::optional<std::size_t> take(std::size_t bytes);
  // Frees the range that take() returned.
  void give_back(std::size_t begin);

  // Returns free ranges that have pages, longest first, such that at most
  // `keep` free bytes with pages remain. The caller releases their pages.
  std::vector<Range> drop_pages(std::size_t keep);

  std::size_t used() const { return used_; }
  std::size_t most_used() const { return most_used_; }
  // Upper bound of the free bytes that have pages (merged ranges are counted as
  // a whole).
  std::size_t idle() const { return idle_; }

 private:
  struct Free {
    std::size_t bytes = 0;
    std::size_t idle = 0; // of them, bytes with pages
  };
  using Frees = std::map<std::size_t, Free>; // by begin

  void add(std::size_t begin, Free part);
  Free remove(Frees::iterator part);

  Frees free_;
  std::set<std::pair<std::size_t, std::size_t>> by_bytes_; // (bytes, begin)
  std::unordered_map<std::size_t, std::size_t> taken_;     // begin -> bytes
  std::size_t used_ = 0;
  std::size_t most_used_ = 0;
  std::size_t idle_ = 0;
};

} // namespace argosy::heap
