#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace argosy::ps {

// Rows outside of a table: all of their state, bit by bit. A row's words are
// its fields in the order of RowLayout, with unseen days in the place of
// seen_day; base_words or full_words of them, or pending_words, the count, for
// an id that a count filter has not admitted yet.
struct RowBatch {
  std::vector<std::uint64_t> keys;
  std::vector<float> words;
  std::vector<std::size_t> ends; // of each row's words

  std::size_t size() const { return keys.size(); }

  std::span<const float> row(std::size_t i) const {
    const std::size_t begin = i == 0 ? 0 : ends[i - 1];
    return std::span(words).subspan(begin, ends[i] - begin);
  }

  // Appends a row; returns its words, to be filled.
  std::span<float> add(std::uint64_t key, std::size_t num_words) {
    keys.push_back(key);
    words.resize(words.size() + num_words);
    ends.push_back(words.size());
    return std::span(words).last(num_words);
  }

  void remove_last() {
    keys.pop_back();
    ends.pop_back();
    words.resize(ends.empty() ? 0 : ends.back());
  }

  void clear() {
    keys.clear();
    words.clear();
    ends.clear();
  }

  bool operator==(const RowBatch&) const = default;
};

} // namespace argosy::ps
