#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "argosy/data/slots/slot.h"

namespace argosy::data {

// Where a sample was shown, of its log key.
struct LogKey {
  std::uint64_t search_id = 0;
  std::uint32_t cmatch = 0; // kind of the place
  std::uint32_t rank = 0;   // its position

  bool operator==(const LogKey&) const = default;
};

// How the bytes of a sample are laid out. All samples of a dataset have the
// same layout. In this order, without gaps, little endian:
//
//   uint32  bytes of the whole sample
//   uint32  bytes of the id, of the content    with has_texts
//   LogKey                                     with has_log_key
//   uint32  number of values                   of each slot that is not dense
//   values  uint64 or float                    of each slot
//   bytes   of the id, of the content          with has_texts
//
// A sample is one piece of memory, so that it is sent as it is.
class RecordLayout {
 public:
  explicit RecordLayout(
      Slots slots, bool has_texts = false, bool has_log_key = false);

  const Slots& slots() const { return slots_; }
  bool has_texts() const { return has_texts_; }
  bool has_log_key() const { return has_log_key_; }

  // Offset of the first number of values, and of the first value.
  std::size_t counts_offset() const { return counts_offset_; }
  std::size_t values_offset() const { return values_offset_; }

 private:
  Slots slots_;
  bool has_texts_;
  bool has_log_key_;
  std::size_t counts_offset_;
  std::size_t values_offset_;
};

// The values of one slot of a sample; they are not aligned.
struct SlotValues {
  const std::byte* data = nullptr;
  std::size_t size = 0;

  std::uint64_t id(std::size_t i) const { return at<std::uint64_t>(i); }
  float number(std::size_t i) const { return at<float>(i); }

 private:
  template <typename T>
  T at(std::size_t i) const {
    T value;
    std::memcpy(&value, data + i * sizeof(T), sizeof(T));
    return value;
  }
};

// A sample, in memory that somebody else owns.
class RecordView {
 public:
  RecordView(const RecordLayout& layout, const std::byte* data)
      : layout_(&layout), data_(data) {}

  const std::byte* data() const { return data_; }
  std::size_t bytes() const { return number(0); }

  // All slots in order. Finding one alone takes a walk over those before it.
  void values(std::vector<SlotValues>& of_slots) const;

  std::string_view id() const;
  std::string_view content() const;
  LogKey log_key() const;

 private:
  std::uint32_t number(std::size_t offset) const {
    std::uint32_t value;
    std::memcpy(&value, data_ + offset, sizeof(value));
    return value;
  }

  const RecordLayout* layout_;
  const std::byte* data_;
};

// Samples in memory that is taken in large pieces. Can be moved; references to
// samples stay valid until clear(). Not thread-safe.
class Records {
 public:
  Records() = default;
  Records(Records&& other) noexcept { swap(other); }
  Records& operator=(Records&& other) noexcept {
    Records(std::move(other)).swap(*this);
    return *this;
  }

  void swap(Records& other) noexcept;

  std::size_t size() const { return samples_.size(); }
  bool empty() const { return samples_.empty(); }
  std::size_t bytes() const { return bytes_; }
  const std::byte* operator[](std::size_t i) const { return samples_[i]; }

  // Returns room for a sample of at most `bytes`. It becomes one by commit()
  // with the bytes it really has; without, the room is used again.
  std::byte* room(std::size_t bytes);
  void commit(std::size_t bytes);
  // The same for several samples of these lengths that lie one after another in
  // the room. Does not read them.
  void commit_samples(std::span<const std::int32_t> lengths);
  void reserve(std::size_t samples) { samples_.reserve(samples); }

  // Takes over the samples of another.
  void append(Records&& other);

  // Puts the samples in an order that depends on the seed only.
  void shuffle(std::uint64_t seed);

  void clear();

  std::span<const std::byte* const> samples() const { return samples_; }

  // How long a sample says that it is.
  static std::size_t bytes_of(const std::byte* sample) {
    std::uint32_t bytes;
    std::memcpy(&bytes, sample, sizeof(bytes));
    return bytes;
  }

  // Memory whose first `used` bytes are samples, one after another.
  struct Piece {
    std::unique_ptr<std::byte[]> memory;
    std::size_t capacity = 0;
    std::size_t used = 0;

    std::size_t room() const { return capacity - used; }
  };
  // Gives all memory away; no samples are left.
  std::vector<Piece> release();
  // Takes over a piece, whose samples these are, in any order. The room behind
  // them is used for others.
  void adopt(Piece piece, std::span<const std::byte* const> samples);

 private:
  bool is_filling() const { return filling_ < pieces_.size(); }
  void keep_open(std::size_t piece);
  void open_piece(std::size_t bytes);

  std::vector<Piece> pieces_;
  std::vector<const std::byte*> samples_;
  std::size_t filling_ = 0;       // index of the piece that has the room
  std::vector<std::size_t> open_; // others that have some
  std::size_t bytes_ = 0;         // of all samples
};

} // namespace argosy::data
