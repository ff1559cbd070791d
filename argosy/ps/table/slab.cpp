#include "argosy/ps/table/slab.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/ps/table/page_feeder.h"

namespace argosy::ps {

namespace {

constexpr std::size_t kSmallestChunk = 128u << 20;
constexpr std::uint32_t kMostRows = 1u << 30;
constexpr std::uint32_t kNoFreeRow = 0xffffffff;

} // namespace

Slab::Slab(std::size_t num_words, std::shared_ptr<PageFeeder> feeder)
    : num_words_(num_words),
      row_bytes_(sizeof(std::uint64_t) + num_words * sizeof(float)),
      shift_(static_cast<unsigned>(
          std::bit_width((kSmallestChunk - 1) / row_bytes_))),
      mask_((1u << shift_) - 1),
      feeder_(std::move(feeder)),
      feed_at_(static_cast<std::uint32_t>(kHugePagesFrom / row_bytes_)),
      first_free_(kNoFreeRow) {}

void Slab::set(std::uint64_t* bits, std::uint32_t index, bool value) const {
  const std::uint32_t in_chunk = index & mask_;
  const std::uint64_t bit = 1ull << (in_chunk % 64);
  if (value) {
    bits[in_chunk / 64] |= bit;
  } else {
    bits[in_chunk / 64] &= ~bit;
  }
}

void Slab::add_chunk() {
  const std::size_t num_rows = std::size_t{1} << shift_;
  const std::size_t num_words = (num_rows + 63) / 64; // of each kind of bits
  const std::size_t bytes =
      (num_rows * row_bytes_ + kHugePage - 1) / kHugePage * kHugePage;
  Chunk chunk{
      Pages(bytes + 2 * num_words * sizeof(std::uint64_t)),
      bytes,
      nullptr,
      nullptr};
  chunk.live =
      reinterpret_cast<std::uint64_t*>(chunk.pages.data() + chunk.row_bytes);
  chunk.recent = chunk.live + num_words;
  // The beginning of the first chunk stays in small pages, for small tables.
  chunk.pages.want_huge_pages(chunks_.empty() ? kHugePagesFrom : 0, bytes);
  rows_.push_back(chunk.pages.data());
  chunks_.push_back(std::move(chunk));
  fed_ = 0;
}

// Has memory made for the rows after end_, as far as fed_ahead(); in a new
// chunk, if they reach beyond this one. It is not urgent: while the feeder is
// at work, the next time is as good.
void Slab::feed() {
  const std::size_t rows_in_chunk = std::size_t{1} << shift_;
  const std::size_t in_last =
      end_ - std::min<std::size_t>(end_, (chunks_.size() - 1) * rows_in_chunk);
  const std::size_t wanted_end =
      in_last * row_bytes_ + fed_ahead(end_ * row_bytes_);
  chunks_.back().pages.feed(
      feeder_, std::max(fed_, in_last * row_bytes_), wanted_end);
  fed_ = wanted_end / kHugePage * kHugePage;
  if (wanted_end >= chunks_.back().row_bytes &&
      end_ < kMostRows - rows_in_chunk) {
    if (const auto pause = feeder_->try_pause()) {
      add_chunk();
    }
  }
  feed_at_ = end_ + static_cast<std::uint32_t>(kHugePage / row_bytes_);
}

std::uint32_t Slab::allocate(std::uint64_t key) {
  std::uint32_t index = first_free_;
  if (index != kNoFreeRow) {
    std::memcpy(&first_free_, at(index), sizeof(first_free_));
  } else {
    ARGOSY_CHECK(
        end_ < kMostRows,
        "[ps.table] a partition has {} rows of {} words, expected fewer: use "
        "more partitions or servers",
        end_,
        num_words_);
    index = end_++;
    if (index >> shift_ == chunks_.size()) {
      const auto pause =
          feeder_ != nullptr ? feeder_->pause() : PageFeeder::Pause();
      add_chunk();
    }
    if (end_ >= feed_at_ && feeder_ != nullptr) {
      feed();
    }
  }
  std::memcpy(at(index), &key, sizeof(key));
  set(chunk(index).live, index, true);
  ++size_;
  return index;
}

void Slab::free(std::uint32_t index) {
  set(chunk(index).live, index, false);
  std::memcpy(at(index), &first_free_, sizeof(first_free_));
  first_free_ = index;
  --size_;
}

std::size_t Slab::memory_bytes() const {
  return end_ * row_bytes_ + end_ / 4; // two bits a row
}

} // namespace argosy::ps
