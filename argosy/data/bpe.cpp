#include "argosy/data/bpe.h"

#include <set>
#include <unordered_set>
#include <utility>

namespace argosy::data {

namespace {

using Merge = Tokenizer::Merge;
using Ids = std::vector<std::int32_t>;

Ids ids_of_bytes(std::string_view word) {
  Ids ids;
  for (const char c : word) {
    ids.push_back(static_cast<unsigned char>(c));
  }
  return ids;
}

std::uint64_t key_of(Merge pair) {
  return static_cast<std::uint64_t>(pair.first) << 32 |
      static_cast<std::uint32_t>(pair.second);
}

// Replaces each occurrence of `pair`, from left to right.
void replace(Ids& ids, Merge pair, std::int32_t merged) {
  std::size_t to = 0;
  for (std::size_t from = 0; from < ids.size(); ++to) {
    const bool is_pair = from + 1 < ids.size() && ids[from] == pair.first &&
        ids[from + 1] == pair.second;
    ids[to] = is_pair ? merged : ids[from];
    from += is_pair ? 2 : 1;
  }
  ids.resize(to);
}

// The words during training and, for each pair of adjacent tokens, how often
// and in which words it occurs.
class Trainer {
 public:
  explicit Trainer(const std::map<std::string_view, std::int64_t>& counts) {
    for (const auto& [word, count] : counts) {
      words_.push_back({ids_of_bytes(word), count});
      count_pairs(words_.size() - 1, +1);
    }
  }

  // The most frequent pair; ties go to the smallest.
  bool has_pair() const {
    // Counts are negated. A pair that occurs once is not worth a token.
    return !ranking_.empty() && ranking_.begin()->first <= -2;
  }
  Merge best_pair() const { return ranking_.begin()->second; }

  void merge(Merge pair, std::int32_t merged) {
    // A copy, because the loop changes the set.
    const auto words = pairs_.at(key_of(pair)).words;
    for (const std::size_t word : words) {
      // Only the pairs of this word change: uncount them all, merge, count
      // again.
      count_pairs(word, -1);
      replace(words_[word].ids, pair, merged);
      count_pairs(word, +1);
    }
  }

 private:
  struct Word {
    Ids ids;
    std::int64_t count;
  };
  struct Pair {
    std::int64_t count = 0;
    // May contain words that no longer have the pair.
    std::unordered_set<std::size_t> words;
  };

  void count_pairs(std::size_t word, int sign) {
    const Ids& ids = words_[word].ids;
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      const Merge pair{ids[i], ids[i + 1]};
      // Elements of a set are constant: the pair leaves the ranking with its
      // old count and enters it with the new one.
      Pair& entry = pairs_[key_of(pair)];
      if (entry.count > 0) {
        ranking_.erase({-entry.count, pair});
      }
      entry.count += sign * words_[word].count;
      if (sign > 0) {
        entry.words.insert(word);
      }
      if (entry.count > 0) {
        ranking_.insert({-entry.count, pair});
      } else {
        pairs_.erase(key_of(pair));
      }
    }
  }

  std::vector<Word> words_;
  std::unordered_map<std::uint64_t, Pair> pairs_;
  std::set<std::pair<std::int64_t, Merge>> ranking_; // by descending count
};

} // namespace

std::vector<Merge> learn_merges(
    const std::map<std::string_view, std::int64_t>& counts, std::size_t limit) {
  Trainer trainer(counts);
  std::vector<Merge> merges;
  while (merges.size() < limit && trainer.has_pair()) {
    merges.push_back(trainer.best_pair());
    trainer.merge(
        merges.back(),
        static_cast<std::int32_t>(Tokenizer::kNumBytes + merges.size() - 1));
  }
  return merges;
}

MergeTable::MergeTable(const std::vector<Merge>& merges) {
  for (std::size_t i = 0; i < merges.size(); ++i) {
    ids_.emplace(
        key_of(merges[i]), static_cast<std::int32_t>(Tokenizer::kNumBytes + i));
  }
}

Ids MergeTable::encode(std::string_view word) const {
  Ids ids = ids_of_bytes(word);
  for (;;) {
    // Ids grow in the order of learning, so the least id was learnt first.
    auto first = ids_.end(); // the merge learnt first
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto found = ids_.find(key_of({ids[i], ids[i + 1]}));
      if (found != ids_.end() &&
          (first == ids_.end() || found->second < first->second)) {
        first = found;
      }
    }
    if (first == ids_.end()) {
      return ids;
    }
    const Merge pair{
        static_cast<std::int32_t>(first->first >> 32),
        static_cast<std::int32_t>(first->first & 0xffffffffU)};
    replace(ids, pair, first->second);
  }
}

} // namespace argosy::data
