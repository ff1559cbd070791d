#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
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

// Some neighbours of a batch of keys, and the rows that they have.
struct RowGroup {
  static constexpr std::size_t kMost = 16;

  std::size_t first = 0; // its place in the batch
  std::size_t count = 0;
  const std::uint64_t* keys = nullptr;
  RowRef rows[kMost];
  float* words[kMost]; // of each row; null: there is none
  // Whether all of them have full rows: `rows` and `words` are what they say
  // until a row comes, moves or goes. Else ask RowStore::current().
  bool all_full = false;

 private:
  friend class RowStore;
  std::uint32_t hashes[kMost];
  std::uint32_t farther = 0; // a bit for each key that needs a second look
  std::uint64_t changes = 0; // of the store, when it looked
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

  // Calls use(group) for all keys in order, a group at a time, while slots of
  // the index and rows of groups behind come from memory. `use` may insert,
  // move and erase rows; later groups see that.
  template <typename Use>
  void find_groups(std::span<const std::uint64_t> keys, const Use& use) const;

  // The row of a group's key now.
  struct Found {
    RowRef row;
    float* words; // null: there is none
  };
  Found current(const RowGroup& group, std::size_t i) const;

  // Calls use(i, row, words) for each key in order, as find_groups() does.
  template <typename Use>
  void find_all(std::span<const std::uint64_t> keys, const Use& use) const {
    find_groups(keys, [&](const RowGroup& group) {
      for (std::size_t i = 0; i < group.count; ++i) {
        const Found found = current(group, i);
        use(group.first + i, found.row, found.words);
      }
    });
  }

  RowRef insert(std::uint64_t key, RowKind kind);
  // Gives a row another kind: a new row with the same key. Its words are
  // undefined; those of the old one stay readable until the next insert.
  RowRef change_kind(RowRef row, RowKind kind);
  void erase(RowRef row);

  std::size_t size() const { return index_.size(); }
  std::size_t memory_bytes() const;

 private:
  RowStore(const RowLayout& layout, const std::shared_ptr<PageFeeder>& feeder);

  // Steps of find_groups(), in groups behind the one whose slots are asked for:
  // slots are read, and rows asked for; the same for keys that are not in their
  // own line; rows are used. What was asked for so has the time of two groups
  // to come.
  static constexpr std::size_t kLookLag = 2;
  static constexpr std::size_t kFartherLag = 3;
  static constexpr std::size_t kUseLag = 4;
  static constexpr std::size_t kGroups = 8; // under way: a power of two

  static std::uint64_t key_before(const float* words) {
    std::uint64_t key;
    std::memcpy(
        &key,
        reinterpret_cast<const std::byte*>(words) - sizeof(key),
        sizeof(key));
    return key;
  }
  static std::size_t to_index(RowKind kind) {
    return static_cast<std::size_t>(kind);
  }
  RowRef find(std::uint64_t key, std::uint32_t hash) const {
    return {index_.find(hash, [&](std::uint32_t position) {
      return this->key(RowRef{position}) == key;
    })};
  }

  void ask_for_slots(
      std::span<const std::uint64_t> keys,
      std::size_t first,
      RowGroup& group) const;
  void ask_for_rows(RowGroup& group) const;
  void ask_for_farther_rows(RowGroup& group) const;
  void ask_for_row(RowGroup& group, std::size_t i, std::uint32_t found) const;
  bool has_all_full(const RowGroup& group) const;

  KeyIndex index_;
  std::array<Slab, kRowKinds> slabs_;
  std::uint64_t changes_ = 0; // grows when a row comes, moves or goes
};

inline void RowStore::ask_for_slots(
    std::span<const std::uint64_t> keys,
    std::size_t first,
    RowGroup& group) const {
  group.first = first;
  group.keys = keys.data() + first;
  group.count = std::min(RowGroup::kMost, keys.size() - first);
  for (std::size_t i = 0; i < group.count; ++i) {
    group.hashes[i] = KeyIndex::hash(group.keys[i]);
    index_.prefetch(group.hashes[i]);
  }
}

// The row is almost always the key's, but it has only the same hash; its key,
// which is not in the cache yet, is compared when it is used.
inline void RowStore::ask_for_row(
    RowGroup& group, std::size_t i, std::uint32_t found) const {
  const RowRef row{found};
  group.rows[i] = row;
  group.words[i] = nullptr;
  if (row.exists()) {
    const Slab& home = slab(row.kind());
    std::byte* const at = home.at(row.index());
    home.prefetch(at);
    group.words[i] = reinterpret_cast<float*>(at + sizeof(std::uint64_t));
  }
}

inline void RowStore::ask_for_rows(RowGroup& group) const {
  group.changes = changes_;
  group.farther = 0;
  for (std::size_t i = 0; i < group.count; ++i) {
    const std::uint32_t found = index_.find_near(group.hashes[i]);
    if (found == KeyIndex::kFarther) {
      group.farther |= 1u << i;
    } else {
      ask_for_row(group, i, found);
    }
  }
}

inline void RowStore::ask_for_farther_rows(RowGroup& group) const {
  for (std::uint32_t rest = group.farther; rest != 0; rest &= rest - 1) {
    const auto i = static_cast<std::size_t>(__builtin_ctz(rest));
    const auto any = [](std::uint32_t) { return true; };
    ask_for_row(group, i, index_.find(group.hashes[i], any));
  }
}

inline bool RowStore::has_all_full(const RowGroup& group) const {
  static_assert(static_cast<int>(RowKind::Full) == 0);
  std::uint32_t kinds = 0; // no row has other bits than a full one
  for (std::size_t i = 0; i < group.count; ++i) {
    kinds |= group.rows[i].bits;
  }
  if (group.changes != changes_ || RowRef{kinds}.kind() != RowKind::Full) {
    return false;
  }
  std::uint64_t differ = 0;
  for (std::size_t i = 0; i < group.count; ++i) {
    differ |= key_before(group.words[i]) ^ group.keys[i];
  }
  return differ == 0;
}

inline RowStore::Found RowStore::current(
    const RowGroup& group, std::size_t i) const {
  float* const words = group.words[i];
  const std::uint64_t key = group.keys[i];
  if (group.changes == changes_ &&
      (words == nullptr || key_before(words) == key)) {
    return {group.rows[i], words};
  }
  const RowRef row = find(key, group.hashes[i]);
  return {row, row.exists() ? this->words(row) : nullptr};
}

template <typename Use>
void RowStore::find_groups(
    std::span<const std::uint64_t> keys, const Use& use) const {
  RowGroup groups[kGroups];
  const std::size_t count =
      (keys.size() + RowGroup::kMost - 1) / RowGroup::kMost;
  // The group that began `lag` before the newest, if there is one.
  const auto behind = [&](std::size_t newest, std::size_t lag) -> RowGroup* {
    return newest >= lag && newest - lag < count
        ? &groups[(newest - lag) % kGroups]
        : nullptr;
  };
  for (std::size_t newest = 0; newest < count + kUseLag; ++newest) {
    if (RowGroup* const group = behind(newest, 0)) {
      ask_for_slots(keys, newest * RowGroup::kMost, *group);
    }
    if (RowGroup* const group = behind(newest, kLookLag)) {
      ask_for_rows(*group);
    }
    if (RowGroup* const group = behind(newest, kFartherLag)) {
      ask_for_farther_rows(*group);
    }
    if (RowGroup* const group = behind(newest, kUseLag)) {
      group->all_full = has_all_full(*group);
      use(*group);
    }
  }
}

} // namespace argosy::ps
