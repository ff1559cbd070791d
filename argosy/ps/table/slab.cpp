#include "argosy/ps/table/slab.h"

#include <bit>

#include "argosy/common/error.h"

namespace argosy::ps {

namespace {

constexpr std::size_t kSmallestChunk = 128u << 20;
constexpr std::uint32_t kMostRows = 1u << 30;
constexpr std::uint32_t kNoFreeRow = 0xffffffff;

} // namespace

Slab::Slab(std::size_t num_words)
    : num_words_(num_words),
      row_bytes_(sizeof(std::uint64_t) + num_words * sizeof(float)),
      shift_(static_cast<unsigned>(
          std::bit_width((kSmallestChunk - 1) / row_bytes_))),
      mask_((1u << shift_) - 1),
      first_free_(kNoFreeRow) {}

void Slab::set(const Bits& bits, std::uint32_t index, bool value) const {
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
  const std::size_t num_bits = (num_rows + 63) / 64;
  const std::size_t bytes = num_rows * row_bytes_;
  Chunk chunk{
      Pages((bytes + kHugePage - 1) / kHugePage * kHugePage),
      std::make_unique<std::uint64_t[]>(num_bits),
      std::make_unique<std::uint64_t[]>(num_bits)};
  // The beginning of the first chunk stays in small pages, for small tables.
  chunk.pages.want_huge_pages(chunks_.empty() ? kHugePagesFrom : 0);
  rows_.push_back(chunk.pages.data());
  chunks_.push_back(std::move(chunk));
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
      add_chunk();
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
