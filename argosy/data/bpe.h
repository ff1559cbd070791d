#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "argosy/data/tokenizer.h"

// The two algorithms of byte-pair encoding, on single words.
namespace argosy::data {

// Learns at most `limit` merges from words and how often each occurs. Cost:
// each merge touches only the words that contain it, and a set keeps the pairs
// in order, so that the most frequent is found in logarithmic time.
std::vector<Tokenizer::Merge> learn_merges(
    const std::map<std::string_view, std::int64_t>& counts, std::size_t limit);

// Looks merges up, to encode words.
class MergeTable {
 public:
  explicit MergeTable(const std::vector<Tokenizer::Merge>& merges);

  // Merges pairs, the one learnt first before others, until none is left. Cost:
  // the word's length, times the different merges in it.
  std::vector<std::int32_t> encode(std::string_view word) const;

 private:
  std::unordered_map<std::uint64_t, std::int32_t> ids_; // by both parts
};

} // namespace argosy::data
