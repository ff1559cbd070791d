#pragma once

#include <emmintrin.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "argosy/ps/table/pages.h"

namespace argosy::ps {

// Where rows stand, by key: open addressing in slots of 8 bytes, which hold 32
// bits of the key's hash and the row's position. Keys themselves stand in the
// rows. The eight slots of a cache line are a bucket; a key goes to the first
// free slot from the beginning of its bucket on, which is in the same line for
// 19 of 20 keys, and a line is compared at once.
//
// bucket = hash * buckets / 2^32, so buckets are in the order of hashes. That
// makes growth cheap and gradual: entries move from the old slots to the new
// ones in that order, a few with each insert; one comparison with the hash that
// the move has reached tells which slots hold a key. Both are read and written
// from front to back, and what is behind goes back to the kernel.
//
// At most 2/3 of the slots are taken (3/4 while it grows), and at least 8/15 of
// those of a large index: 12 to 15 bytes a row.
class KeyIndex {
 public:
  static constexpr std::uint32_t kNone = 0xffffffff;    // no position
  static constexpr std::uint32_t kFarther = 0xfffffffe; // see find_near()

  // `feeder` makes memory for slots to come, if there is one.
  explicit KeyIndex(std::shared_ptr<PageFeeder> feeder = nullptr);

  static std::uint32_t hash(std::uint64_t key) {
    std::uint64_t mixed = key ^ (key >> 32);
    mixed *= 0xd6e8feb86659fd93u;
    mixed ^= mixed >> 32;
    mixed *= 0xd6e8feb86659fd93u;
    return static_cast<std::uint32_t>(mixed >> 32) | 1; // as in no empty slot
  }

  void prefetch(std::uint32_t hash) const { __builtin_prefetch(home(hash)); }

  // The position for which `matches` returns true, among those inserted with
  // this hash; kNone if there is none.
  template <typename Matches>
  std::uint32_t find(std::uint32_t hash, const Matches& matches) const {
    const std::uint64_t* slot = find_slot(hash, matches);
    return slot == nullptr ? kNone : position_of(*slot);
  }

  // The first position that was inserted with this hash, whatever its key. One
  // look at one cache line: kFarther if an answer needs the next line, too,
  // which is prefetched.
  std::uint32_t find_near(std::uint32_t hash) const {
    const std::uint64_t* const line = home(hash);
    const unsigned same = compare(line, hash) & kHashes;
    if (same != 0) [[likely]] {
      return position_of(line[__builtin_ctz(same) / 2]);
    }
    if ((compare(line, 0) & kPositions) != 0) {
      return kNone;
    }
    __builtin_prefetch(line + kBucket);
    return kFarther;
  }

  // Hashes are those of hash(): never zero.
  //
  // Adds an entry. The caller knows that there is none for its key. Throws
  // InvalidArgument if thousands of keys have this hash.
  void insert(std::uint32_t hash, std::uint32_t position);

  // Changes the position of an entry, which exists.
  void replace(std::uint32_t hash, std::uint32_t from, std::uint32_t to);

  // Removes an entry, which exists.
  void erase(std::uint32_t hash, std::uint32_t position);

  std::size_t size() const { return size_; }

  // Of the memory that holds slots.
  std::size_t memory_bytes() const;

 private:
  static constexpr std::size_t kBucket = 8; // slots of a cache line

  struct Slots {
    explicit Slots(std::size_t buckets);
    std::uint64_t* data() const {
      return reinterpret_cast<std::uint64_t*>(pages.data());
    }
    std::uint64_t* home(std::uint32_t hash) const {
      return data() + ((hash * buckets) >> 32) * kBucket;
    }
    std::size_t capacity() const { return buckets * kBucket; }

    std::size_t buckets;
    std::size_t end; // slots with a tail for the last buckets; an empty one
                     // follows
    Pages pages;
  };

  static std::uint32_t hash_of(std::uint64_t slot) { return slot >> 32; }
  static std::uint32_t position_of(std::uint64_t slot) {
    return static_cast<std::uint32_t>(slot) - 1;
  }
  static std::uint64_t slot_of(std::uint32_t hash, std::uint32_t position) {
    return std::uint64_t{hash} << 32 | (position + 1);
  }

  const Slots& slots_of(std::uint32_t hash) const {
    return hash < moved_hashes_ ? next_ : slots_;
  }
  std::uint64_t* home(std::uint32_t hash) const {
    return slots_of(hash).home(hash);
  }

  // Two bits for each slot of a line: those of the words (a slot's position,
  // zero if it is empty, and then its hash) that are equal to `word`.
  static unsigned compare(const std::uint64_t* line, std::uint32_t word) {
    const auto* const pairs = reinterpret_cast<const __m128i*>(line);
    const __m128i wanted = _mm_set1_epi32(static_cast<int>(word));
    const auto equal = [&](int i) {
      return _mm_cmpeq_epi32(_mm_load_si128(pairs + i), wanted);
    };
    const __m128i lower = _mm_packs_epi32(equal(0), equal(1));
    const __m128i upper = _mm_packs_epi32(equal(2), equal(3));
    return static_cast<unsigned>(
        _mm_movemask_epi8(_mm_packs_epi16(lower, upper)));
  }
  static constexpr unsigned kPositions = 0x5555;
  static constexpr unsigned kHashes = 0xaaaa;

  template <typename Matches>
  std::uint64_t* find_slot(std::uint32_t hash, const Matches& matches) const {
    for (std::uint64_t* line = home(hash);; line += kBucket) {
      unsigned same = compare(line, hash) & kHashes;
      for (; same != 0; same &= same - 1) {
        std::uint64_t* const slot = line + __builtin_ctz(same) / 2;
        if (matches(position_of(*slot))) {
          return slot;
        }
      }
      if ((compare(line, 0) & kPositions) != 0) {
        return nullptr;
      }
    }
  }

  static void put(const Slots& slots, std::uint64_t entry);
  void begin_growth();
  void move_some(std::size_t num_slots);
  void feed();
  std::size_t used_of_next() const;

  std::shared_ptr<PageFeeder> feeder_;
  Slots slots_;
  // While the index grows: where entries go, how many slots of slots_ have been
  // emptied, which hashes have moved, and what went back to the kernel.
  Slots next_;
  std::size_t moved_slots_ = 0;
  std::uint64_t moved_hashes_ = 0; // hashes below are in next_
  std::size_t released_ = 0;
  std::size_t fed_ = 0; // bytes of next_ that were asked for ahead
  bool growing_ = false;
  std::size_t size_ = 0;
};

} // namespace argosy::ps
