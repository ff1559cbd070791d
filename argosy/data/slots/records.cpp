#include "argosy/data/slots/records.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "argosy/common/error.h"

namespace argosy::data {

static_assert(std::endian::native == std::endian::little);

namespace {

constexpr std::size_t kNumber = sizeof(std::uint32_t);
// Pieces grow with what is there: a small file takes little.
constexpr std::size_t kLeastPiece = std::size_t{64} << 10;
constexpr std::size_t kMostPiece = std::size_t{4} << 20;

std::size_t value_bytes(const Slot& slot) {
  return slot.type == SlotType::Id ? sizeof(std::uint64_t) : sizeof(float);
}

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
    data += size * value_bytes(slots[i]);
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
  std::swap(free_, other.free_);
  std::swap(free_bytes_, other.free_bytes_);
  std::swap(bytes_, other.bytes_);
}

std::byte* Records::room(std::size_t bytes) {
  if (bytes > free_bytes_) {
    const std::size_t piece =
        std::max(bytes, std::clamp(bytes_, kLeastPiece, kMostPiece));
    pieces_.push_back(std::make_unique_for_overwrite<std::byte[]>(piece));
    free_ = pieces_.back().get();
    free_bytes_ = piece;
  }
  return free_;
}

void Records::commit(std::size_t bytes) {
  samples_.push_back(free_);
  free_ += bytes;
  free_bytes_ -= bytes;
  bytes_ += bytes;
}

void Records::commit_samples(std::size_t bytes) {
  while (bytes > 0) {
    std::uint32_t own = 0;
    if (bytes >= kNumber) {
      std::memcpy(&own, free_, kNumber);
    }
    ARGOSY_CHECK(
        own >= kNumber && own <= bytes,
        "[data.records] a sample says that it has {} bytes, {} are there",
        own,
        bytes);
    commit(own);
    bytes -= own;
  }
}

void Records::append(Records&& other) {
  std::move(
      other.pieces_.begin(), other.pieces_.end(), std::back_inserter(pieces_));
  samples_.insert(samples_.end(), other.samples_.begin(), other.samples_.end());
  bytes_ += other.bytes_;
  if (free_bytes_ < other.free_bytes_) {
    free_ = other.free_;
    free_bytes_ = other.free_bytes_;
  }
  other = Records();
}

void Records::clear() {
  *this = Records();
}

} // namespace argosy::data
