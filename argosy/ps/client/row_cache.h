#pragma once

#include <cstdint>
#include <list>
#include <span>
#include <unordered_map>
#include <vector>

namespace argosy::ps {

// Rows of a table that a worker pulled before and takes again, as long as they
// are not too old. Least recently used rows leave first. One thread at a time.
class RowCache {
 public:
  // `max_age`: a row is taken for so many steps after the one it came in.
  RowCache(std::size_t capacity, std::int64_t max_age, std::size_t width);

  // Copies the row if it is here and not older than max_age at `step`.
  bool find(std::uint64_t key, std::int64_t step, std::span<float> row);
  void put(std::uint64_t key, std::int64_t step, std::span<const float> row);

  std::uint64_t hits() const { return hits_; }
  std::uint64_t misses() const { return misses_; }
  std::size_t size() const { return rows_.size(); }
  // The age of the oldest row that find() has given out, in steps.
  std::int64_t oldest_hit() const { return oldest_hit_; }

 private:
  struct Row {
    std::uint64_t key = 0;
    std::int64_t step = 0;
    std::vector<float> values{};
  };

  std::size_t capacity_;
  std::int64_t max_age_;
  std::size_t width_;
  std::list<Row> rows_; // the most recently used one first
  std::unordered_map<std::uint64_t, std::list<Row>::iterator> index_;
  std::uint64_t hits_ = 0;
  std::uint64_t misses_ = 0;
  std::int64_t oldest_hit_ = 0;
};

} // namespace argosy::ps
