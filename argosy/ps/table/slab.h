#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "argosy/ps/table/pages.h"

namespace argosy::ps {

// Rows of one size: a key of 8 bytes and words of 4 behind it, without padding.
// Rows stay where they are. Their memory comes in chunks of at least 128 MB of
// addresses, of which the kernel backs what has been touched.
class Slab {
 public:
  // `feeder` makes memory for rows to come, if there is one.
  explicit Slab(
      std::size_t num_words, std::shared_ptr<PageFeeder> feeder = nullptr);

  std::size_t num_words() const { return num_words_; }

  std::byte* at(std::uint32_t index) const {
    return rows_[index >> shift_] + (index & mask_) * row_bytes_;
  }
  std::uint64_t key(std::uint32_t index) const {
    std::uint64_t key;
    std::memcpy(&key, at(index), sizeof(key));
    return key;
  }
  float* words(std::uint32_t index) const {
    return reinterpret_cast<float*>(at(index) + sizeof(std::uint64_t));
  }

  // Of a row at `row`.
  void prefetch(const std::byte* row) const {
    for (std::size_t byte = 0; byte < row_bytes_; byte += 64) {
      __builtin_prefetch(row + byte, 1);
    }
    __builtin_prefetch(row + row_bytes_ - 1, 1);
  }

  // A row with this key and undefined words. Throws InvalidArgument when there
  // are 2^30 rows.
  std::uint32_t allocate(std::uint64_t key);
  void free(std::uint32_t index);

  // Rows are below end(); some of those are free.
  std::uint32_t end() const { return end_; }
  bool live(std::uint32_t index) const {
    return test(chunk(index).live, index);
  }
  // The bits of 64 rows from `index` on, a multiple of 64.
  std::uint64_t live_bits(std::uint32_t index) const {
    return chunk(index).live[(index & mask_) / 64];
  }
  std::size_t size() const { return size_; }

  // A bit for each row, for the choice of rows to evict.
  void set_recent(std::uint32_t index) {
    set(chunk(index).recent, index, true);
  }
  // Which of the 64 rows from `index` on, a multiple of 64, are live and have
  // no such bit.
  std::uint64_t cold_bits(std::uint32_t index) const {
    return live_bits(index) & ~chunk(index).recent[(index & mask_) / 64];
  }
  // Clears those of rows index + [from, end), of these 64.
  void clear_recent(
      std::uint32_t index, std::uint32_t from, std::uint32_t end) {
    const std::uint64_t cleared = ~0ull >> (64 - (end - from)) << from;
    chunk(index).recent[(index & mask_) / 64] &= ~cleared;
  }

  // Of the rows that were ever in use, and of bits.
  std::size_t memory_bytes() const;

 private:
  struct Chunk {
    Pages pages; // rows, and both kinds of bits behind them
    std::size_t row_bytes;
    std::uint64_t* live;
    std::uint64_t* recent;
  };

  const Chunk& chunk(std::uint32_t index) const {
    return chunks_[index >> shift_];
  }
  bool test(const std::uint64_t* bits, std::uint32_t index) const {
    const std::uint32_t in_chunk = index & mask_;
    return bits[in_chunk / 64] >> (in_chunk % 64) & 1;
  }
  void set(std::uint64_t* bits, std::uint32_t index, bool value) const;
  void add_chunk();
  void feed();

  std::size_t num_words_;
  std::size_t row_bytes_;
  unsigned shift_; // rows of a chunk: 2^shift
  std::uint32_t mask_;
  std::vector<std::byte*> rows_; // of each chunk
  std::vector<Chunk> chunks_;
  std::shared_ptr<PageFeeder> feeder_;
  std::uint32_t end_ = 0;
  std::uint32_t feed_at_;    // when end_ comes there, more memory is made
  std::size_t fed_ = 0;      // bytes of the last chunk that it was asked for
  std::uint32_t first_free_; // a free row holds the index of the next
  std::size_t size_ = 0;
};

} // namespace argosy::ps
