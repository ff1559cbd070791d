#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "argosy/ps/table/key_index.h"
#include "argosy/ps/table/row_layout.h"
#include "argosy/ps/table/slab.h"

namespace argosy::ps {

// What a row has: all fields, all but embedx, or only a count.
enum class RowKind : std::uint32_t { Full = 0, Base = 1, Pending = 2 };
inline constexpr int kRowKinds = 3;

// A row's kind and its place in the slab of that kind.
struct RowRef {
  static constexpr std::uint32_t kNone = KeyIndex::kNone;
  std::uint32_t bits = kNone;

  static RowRef of(RowKind kind, std::uint32_t index) {
    return {static_cast<std::uint32_t>(kind) << 30 | index};
  }
  bool exists() const { return bits != kNone; }
  RowKind kind() const { return static_cast<RowKind>(bits >> 30); }
  std::uint32_t index() const { return bits & 0x3fffffff; }

  bool operator==(const RowRef&) const = default;
};

// Rows in memory, found by key in about one cache miss.
class RowStore {
 public:
  explicit RowStore(const RowLayout& layout);

  const Slab& slab(RowKind kind) const { return slabs_[to_index(kind)]; }
  Slab& slab(RowKind kind) { return slabs_[to_index(kind)]; }
  float* words(RowRef row) const { return slab(row.kind()).words(row.index()); }
  std::uint64_t key(RowRef row) const {
    return slab(row.kind()).key(row.index());
  }

  RowRef find(std::uint64_t key) const {
    return find(key, KeyIndex::hash(key));
  }

  // Calls use(i, row, words) for each key in order. Slots of the index and then
  // rows are prefetched, some keys ahead. `use` may insert, move and erase
  // rows; later calls see that.
  template <typename Use>
  void find_all(std::span<const std::uint64_t> keys, const Use& use) const;

  RowRef insert(std::uint64_t key, RowKind kind);
  // Gives a row another kind: a new row with the same key. Its words are
  // undefined; those of the old one stay readable until the next insert.
  RowRef change_kind(RowRef row, RowKind kind);
  void erase(RowRef row);

  std::size_t size() const { return index_.size(); }
  std::size_t memory_bytes() const;

 private:
  // Of find_all(): keys of a block, and keys ahead of which slots and rows are
  // prefetched.
  static constexpr std::size_t kBlock = 256;
  static constexpr std::size_t kAhead = 32;

  std::byte* at(RowRef row) const { return slab(row.kind()).at(row.index()); }
  static std::uint64_t load_key(const std::byte* row) {
    std::uint64_t key;
    std::memcpy(&key, row, sizeof(key));
    return key;
  }
  static float* words_at(std::byte* row) {
    return row == nullptr
        ? nullptr
        : reinterpret_cast<float*>(row + sizeof(std::uint64_t));
  }
  void prefetch(RowRef row, const std::byte* place) const {
    if (place != nullptr) {
      slab(row.kind()).prefetch(place);
    }
  }
  static std::size_t to_index(RowKind kind) {
    return static_cast<std::size_t>(kind);
  }
  RowRef find(std::uint64_t key, std::uint32_t hash) const {
    return {index_.find(hash, [&](std::uint32_t position) {
      return this->key(RowRef{position}) == key;
    })};
  }

  // The first row with this hash: almost always the one, but its key, which is
  // not in the cache yet, has not been compared.
  RowRef guess(std::uint32_t hash) const {
    return {index_.find(hash, [](std::uint32_t) { return true; })};
  }

  KeyIndex index_;
  std::array<Slab, kRowKinds> slabs_;
  std::uint64_t changes_ = 0; // grows when a row comes, moves or goes
};

// A block of keys goes through the index first and then through the rows: the
// processor so need not wait for a slot to know which row comes next.
template <typename Use>
void RowStore::find_all(
    std::span<const std::uint64_t> keys, const Use& use) const {
  struct Found {
    RowRef row;
    std::uint32_t hash;
    std::byte* at;
  };
  Found found[kBlock + kAhead];
  for (std::size_t i = 0; i < std::min(kAhead, keys.size()); ++i) {
    index_.prefetch(KeyIndex::hash(keys[i]));
  }
  for (std::size_t begin = 0; begin < keys.size(); begin += kBlock) {
    const std::size_t count = std::min(kBlock, keys.size() - begin);
    const std::uint64_t changes = changes_;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t ahead = std::min(begin + i + kAhead, keys.size() - 1);
      index_.prefetch(KeyIndex::hash(keys[ahead]));
      const std::uint32_t hash = KeyIndex::hash(keys[begin + i]);
      const RowRef row = guess(hash);
      found[i] = {row, hash, row.exists() ? at(row) : nullptr};
    }
    std::fill_n(found + count, kAhead, found[count - 1]);
    for (std::size_t i = 0; i < kAhead; ++i) {
      prefetch(found[i].row, found[i].at);
    }
    for (std::size_t i = 0; i < count; ++i) {
      prefetch(found[i + kAhead].row, found[i + kAhead].at);
      const Found& now = found[i];
      const std::uint64_t key = keys[begin + i];
      const bool same =
          changes == changes_ && (now.at == nullptr || load_key(now.at) == key);
      const RowRef row = same ? now.row : find(key, now.hash);
      std::byte* const place =
          same ? now.at : (row.exists() ? at(row) : nullptr);
      use(begin + i, row, words_at(place));
    }
  }
}

} // namespace argosy::ps
