#include "argosy/ps/table/key_index.h"

#include <algorithm>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/ps/table/page_feeder.h"

namespace argosy::ps {

namespace {

constexpr std::size_t kFewestBuckets = 8;
// Longer runs of taken slots than this tail do not occur by chance.
constexpr std::size_t kLongestTail = 4096;
// Up to here an index doubles, and moves at once; beyond, it grows by a
// quarter, so that few slots are empty, and moves this many slots an insert.
constexpr std::size_t kManyBuckets = 1u << 13;
constexpr std::size_t kMovedPerInsert = 16;

} // namespace

KeyIndex::Slots::Slots(std::size_t buckets_)
    : buckets(buckets_), end(capacity() + std::min(capacity(), kLongestTail)) {
  if (buckets == 0) {
    return;
  }
  pages = Pages((end + kBucket) * sizeof(std::uint64_t));
  if (pages.size() >= kHugePagesFrom) {
    pages.want_huge_pages();
  }
}

KeyIndex::KeyIndex(std::shared_ptr<PageFeeder> feeder)
    : feeder_(std::move(feeder)), slots_(kFewestBuckets), next_(0) {}

// Of the new slots, those up to the home of what moves next are in use.
std::size_t KeyIndex::used_of_next() const {
  const auto reached = std::min<std::uint64_t>(moved_hashes_, 0xffffffff);
  const auto used = next_.home(static_cast<std::uint32_t>(reached));
  return static_cast<std::size_t>(used - next_.data()) * sizeof(std::uint64_t);
}

void KeyIndex::feed() {
  const std::size_t used = used_of_next();
  const std::size_t wanted_end = used + fed_ahead(slots_.pages.size());
  if (wanted_end >= fed_ + kHugePage) {
    next_.pages.feed(feeder_, std::max(fed_, used), wanted_end);
    fed_ = wanted_end / kHugePage * kHugePage;
  }
}

std::size_t KeyIndex::memory_bytes() const {
  const std::size_t old = slots_.pages.size() - released_;
  if (!growing_) {
    return old;
  }
  return old + used_of_next();
}

void KeyIndex::put(const Slots& slots, std::uint64_t entry) {
  std::uint64_t* slot = slots.home(hash_of(entry));
  while (*slot != 0) {
    ++slot;
  }
  ARGOSY_CHECK(
      slot != slots.data() + slots.end,
      "[ps.table] {} keys in a row have the hash {}: keys were chosen to "
      "collide",
      slots.end - slots.capacity(),
      hash_of(entry));
  *slot = entry;
}

void KeyIndex::insert(std::uint32_t hash, std::uint32_t position) {
  if (growing_) {
    move_some(kMovedPerInsert);
  } else if (3 * (size_ + 1) > 2 * slots_.capacity()) {
    begin_growth();
  }
  put(slots_of(hash), slot_of(hash, position));
  ++size_;
}

void KeyIndex::replace(
    std::uint32_t hash, std::uint32_t from, std::uint32_t to) {
  std::uint64_t* const slot =
      find_slot(hash, [&](std::uint32_t position) { return position == from; });
  ARGOSY_ASSERT(slot != nullptr);
  *slot = slot_of(hash, to);
}

// Entries behind move forward into the gap, unless they would come to stand
// before their home.
void KeyIndex::erase(std::uint32_t hash, std::uint32_t position) {
  std::uint64_t* gap =
      find_slot(hash, [&](std::uint32_t found) { return found == position; });
  ARGOSY_ASSERT(gap != nullptr);
  const Slots& slots = slots_of(hash);
  for (std::uint64_t* slot = gap + 1; *slot != 0; ++slot) {
    if (slots.home(hash_of(*slot)) <= gap) {
      *gap = *slot;
      gap = slot;
    }
  }
  *gap = 0;
  --size_;
}

void KeyIndex::begin_growth() {
  const std::size_t now = slots_.buckets;
  {
    const auto pause =
        feeder_ != nullptr ? feeder_->pause() : PageFeeder::Pause();
    next_ = Slots(now < kManyBuckets ? 2 * now : now + now / 4);
  }
  growing_ = true;
  moved_slots_ = 0;
  moved_hashes_ = 0;
  released_ = 0;
  fed_ = 0;
  if (now < kManyBuckets) {
    move_some(slots_.end + 1);
  } else if (next_.pages.size() >= kHugePagesFrom) {
    feed();
  }
}

// Moves entries up to an empty slot, past at least `num_slots`: no entry behind
// it is of its bucket or of one before, so hashes tell where a key is.
void KeyIndex::move_some(std::size_t num_slots) {
  std::uint64_t* const old = slots_.data();
  std::size_t at = moved_slots_;
  const std::size_t enough = at + num_slots;
  for (; at < slots_.end && (at < enough || old[at] != 0); ++at) {
    if (old[at] != 0) {
      put(next_, old[at]);
    }
  }
  if (at >= slots_.end) {
    slots_ = std::exchange(next_, Slots(0));
    growing_ = false;
    moved_hashes_ = 0;
    released_ = 0;
    return;
  }
  const std::size_t moved_buckets = at / kBucket + 1;
  moved_slots_ = moved_buckets * kBucket;
  moved_hashes_ = std::min<std::uint64_t>(
      1ull << 32,
      (moved_buckets * (1ull << 32) + slots_.buckets - 1) / slots_.buckets);
  if (fed_ > 0) {
    feed();
  }
  released_ =
      slots_.pages.release(released_, moved_slots_ * sizeof(std::uint64_t));
}

} // namespace argosy::ps
