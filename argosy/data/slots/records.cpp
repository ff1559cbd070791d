#include "argosy/data/slots/records.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/data/splitmix.h"

namespace argosy::data {

static_assert(std::endian::native == std::endian::little);

namespace {

constexpr std::size_t kNumber = sizeof(std::uint32_t);
// Pieces grow with what is there: a small file takes little.
constexpr std::size_t kLeastPiece = std::size_t{64} << 10;
constexpr std::size_t kMostPiece = std::size_t{16} << 20;

} // namespace

RecordLayout::RecordLayout(Slots slots, bool has_texts, bool has_log_key)
    : slots_(std::move(slots)),
      has_texts_(has_texts),
      has_log_key_(has_log_key),
      counts_offset_(
          kNumber + (has_texts ? 2 * kNumber : 0) +
          (has_log_key ? sizeof(LogKey) : 0)),
      values_offset_(counts_offset_) {
  check_slots(slots_);
  for (const Slot& slot : slots_) {
    values_offset_ += slot.is_dense() ? 0 : kNumber;
  }
}

void RecordView::values(std::vector<SlotValues>& of_slots) const {
  const Slots& slots = layout_->slots();
  of_slots.resize(slots.size());
  std::size_t count = layout_->counts_offset();
  const std::byte* data = data_ + layout_->values_offset();
  for (std::size_t i = 0; i < slots.size(); ++i) {
    std::size_t size = 0;
    if (slots[i].is_dense()) {
      size = static_cast<std::size_t>(slots[i].num_values());
    } else {
      size = number(count);
      count += kNumber;
    }
    of_slots[i] = {data, size};
    data += size * slots[i].value_bytes();
  }
}

std::string_view RecordView::id() const {
  if (!layout_->has_texts()) {
    return {};
  }
  const std::size_t after = number(kNumber) + number(2 * kNumber);
  return {
      reinterpret_cast<const char*>(data_) + bytes() - after, number(kNumber)};
}

std::string_view RecordView::content() const {
  if (!layout_->has_texts()) {
    return {};
  }
  const std::size_t size = number(2 * kNumber);
  return {reinterpret_cast<const char*>(data_) + bytes() - size, size};
}

LogKey RecordView::log_key() const {
  LogKey key;
  if (layout_->has_log_key()) {
    std::memcpy(
        &key, data_ + layout_->counts_offset() - sizeof(key), sizeof(key));
  }
  return key;
}

void Records::swap(Records& other) noexcept {
  std::swap(pieces_, other.pieces_);
  std::swap(samples_, other.samples_);
  std::swap(filling_, other.filling_);
  std::swap(open_, other.open_);
  std::swap(bytes_, other.bytes_);
}

std::byte* Records::room(std::size_t bytes) {
  if (!is_filling() || bytes > pieces_[filling_].room()) {
    open_piece(bytes);
  }
  const Piece& piece = pieces_[filling_];
  return piece.memory.get() + piece.used;
}

void Records::commit(std::size_t bytes) {
  Piece& piece = pieces_[filling_];
  samples_.push_back(piece.memory.get() + piece.used);
  piece.used += bytes;
  bytes_ += bytes;
}

void Records::commit_samples(std::span<const std::int32_t> lengths) {
  for (const std::int32_t bytes : lengths) {
    commit(static_cast<std::size_t>(bytes));
  }
}

void Records::keep_open(std::size_t piece) {
  if (pieces_[piece].room() >= kLeastPiece) {
    open_.push_back(piece);
  }
}

// Fills the open piece that was left last, of those that have the room, or a
// new one.
void Records::open_piece(std::size_t bytes) {
  const bool was_filling = is_filling();
  const std::size_t before = filling_;
  const auto found = std::find_if(open_.rbegin(), open_.rend(), [&](auto i) {
    return pieces_[i].room() >= bytes;
  });
  if (found != open_.rend()) {
    filling_ = *found;
    open_.erase(std::next(found).base());
  } else {
    filling_ = pieces_.size();
    const std::size_t capacity =
        std::max(bytes, std::clamp(bytes_, kLeastPiece, kMostPiece));
    pieces_.push_back(
        {std::make_unique_for_overwrite<std::byte[]>(capacity), capacity, 0});
  }
  if (was_filling) {
    keep_open(before);
  }
}

void Records::append(Records&& other) {
  const std::size_t first = pieces_.size();
  std::ranges::move(other.pieces_, std::back_inserter(pieces_));
  for (const std::size_t piece : other.open_) {
    open_.push_back(first + piece);
  }
  if (other.is_filling()) {
    if (first > 0) {
      keep_open(filling_);
    }
    filling_ = first + other.filling_;
  }
  samples_.insert(samples_.end(), other.samples_.begin(), other.samples_.end());
  bytes_ += other.bytes_;
  other = Records();
}

// Fisher-Yates.
void Records::shuffle(std::uint64_t seed) {
  SplitMix random(seed);
  for (std::size_t left = samples_.size(); left > 1; --left) {
    std::swap(samples_[left - 1], samples_[random.below(left)]);
  }
}

void Records::clear() {
  *this = Records();
}

std::vector<Records::Piece> Records::release() {
  std::vector<Piece> pieces = std::move(pieces_);
  clear();
  return pieces;
}

void Records::adopt(Piece piece, std::span<const std::byte* const> samples) {
  bytes_ += piece.used;
  samples_.insert(samples_.end(), samples.begin(), samples.end());
  pieces_.push_back(std::move(piece));
  if (filling_ != pieces_.size() - 1) {
    keep_open(pieces_.size() - 1);
  }
}

} // namespace argosy::data
