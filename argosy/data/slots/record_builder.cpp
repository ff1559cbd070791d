#include "argosy/data/slots/record_builder.h"

#include <cstring>

namespace argosy::data {

namespace {

std::byte* append(std::byte* to, const void* from, std::size_t bytes) {
  if (bytes > 0) {
    std::memcpy(to, from, bytes);
  }
  return to + bytes;
}

std::byte* append_size(std::byte* to, std::size_t size) {
  const auto number = static_cast<std::uint32_t>(size);
  return append(to, &number, sizeof(number));
}

} // namespace

void build_record(
    const RecordLayout& layout,
    const RecordHead& head,
    const std::vector<SlotValues>& values,
    Records& into) {
  const Slots& slots = layout.slots();
  std::size_t bytes =
      layout.values_offset() + head.id.size() + head.content.size();
  for (std::size_t i = 0; i < slots.size(); ++i) {
    bytes += values[i].size * slots[i].value_bytes();
  }
  std::byte* const sample = into.room(bytes);
  std::byte* head_at = append_size(sample, bytes);
  if (layout.has_texts()) {
    head_at = append_size(head_at, head.id.size());
    head_at = append_size(head_at, head.content.size());
  }
  if (layout.has_log_key()) {
    append(head_at, &head.log_key, sizeof(head.log_key));
  }
  std::byte* count_at = sample + layout.counts_offset();
  std::byte* value_at = sample + layout.values_offset();
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (!slots[i].is_dense()) {
      count_at = append_size(count_at, values[i].size);
    }
    value_at = append(
        value_at, values[i].data, values[i].size * slots[i].value_bytes());
  }
  value_at = append(value_at, head.id.data(), head.id.size());
  append(value_at, head.content.data(), head.content.size());
  into.commit(bytes);
}

} // namespace argosy::data
