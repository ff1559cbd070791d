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

// Which parts of a stretch of memory are in use, without touching it. A free
// part is taken where it fits best, so that what was in use lately, and has
// pages, is used again before what never was.
class FreeSpace {
 public:
  explicit FreeSpace(std::size_t bytes);

  // The begin of a part; nothing when there is none of that length.
  std::optional<std::size_t> take(std::size_t bytes);
  // The part that take() gave at `begin`.
  void give_back(std::size_t begin);

  // Free parts that have pages, the longest first, until at most `keep` bytes
  // with pages would be left: their pages can go.
  std::vector<Range> drop_pages(std::size_t keep);

  std::size_t used() const { return used_; }
  std::size_t most_used() const { return most_used_; }
  // Bytes that are free but have pages (at most: parts that join are counted
  // together).
  std::size_t idle() const { return idle_; }

 private:
  struct Free {
    std::size_t bytes = 0;
    std::size_t idle = 0; // of them, those with pages
  };
  using Frees = std::map<std::size_t, Free>; // by begin

  void add(std::size_t begin, Free part);
  Free remove(Frees::iterator part);

  Frees free_;
  std::set<std::pair<std::size_t, std::size_t>> by_bytes_; // bytes, begin
  std::unordered_map<std::size_t, std::size_t> taken_;     // begin, bytes
  std::size_t used_ = 0;
  std::size_t most_used_ = 0;
  std::size_t idle_ = 0;
};

} // namespace argosy::heap
