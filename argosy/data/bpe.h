#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "argosy/data/tokenizer.h"

// Training and encoding for byte-pair encoding, on single words.
namespace argosy::data {

// Learns at most `limit` merges from words and their frequencies. Each merge
// visits only the words that contain it; an ordered set finds the most frequent
// pair in logarithmic time.
std::vector<Tokenizer::Merge> learn_merges(
    const std::map<std::string_view, std::int64_t>& counts, std::size_t limit);

// Encodes words with given merges.
class MergeTable {
 public:
  explicit MergeTable(const std::vector<Tokenizer::Merge>& merges);

  // Merges pairs in the order in which they were learnt, until none is left.
  // Takes O(word length * number of different merges in it).
  std::vector<std::int32_t> encode(std::string_view word) const;

 private:
  // Keyed by both tokens of the pair.
  std::unordered_map<std::uint64_t, std::int32_t> ids_;
};

} // namespace argosy::data
