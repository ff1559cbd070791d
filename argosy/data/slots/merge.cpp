#include "argosy/data/slots/merge.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/data/slots/record_builder.h"

namespace argosy::data {

namespace {

bool are_equal(const Slot& slot, const SlotValues& a, const SlotValues& b) {
  return a.size == b.size &&
      std::memcmp(a.data, b.data, a.size * slot.value_bytes()) == 0;
}

// Whether a sample has no value of a slot that is not dense. Readers that drop
// zeros put a single 0 there.
class Absence {
 public:
  explicit Absence(bool drops_zeros) : drops_zeros_(drops_zeros) {}

  bool operator()(const Slot& slot, const SlotValues& values) const {
    if (!drops_zeros_ || values.size != 1) {
      return values.size == 0;
    }
    return slot.type == SlotType::Id ? values.id(0) == 0
                                     : values.number(0) == 0;
  }

 private:
  bool drops_zeros_;
};

// Takes over what `part` has; false if both have values of a slot.
bool merge_into(
    const Slots& slots,
    const Absence& is_absent,
    std::vector<SlotValues>& merged,
    const std::vector<SlotValues>& part) {
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].is_dense()) {
      if (!are_equal(slots[i], merged[i], part[i])) {
        return false;
      }
    } else if (!is_absent(slots[i], part[i])) {
      if (!is_absent(slots[i], merged[i])) {
        return false;
      }
      merged[i] = part[i];
    }
  }
  return true;
}

std::optional<std::vector<SlotValues>> merged_values(
    const RecordLayout& layout,
    const Absence& is_absent,
    const std::vector<const std::byte*>& parts) {
  std::vector<SlotValues> merged;
  RecordView(layout, parts[0]).values(merged);
  std::vector<SlotValues> part;
  for (std::size_t i = 1; i < parts.size(); ++i) {
    RecordView(layout, parts[i]).values(part);
    if (!merge_into(layout.slots(), is_absent, merged, part)) {
      return std::nullopt;
    }
  }
  return merged;
}

} // namespace

MergeCounts merge_by_id(
    const RecordLayout& layout,
    Records& records,
    std::int64_t merge_size,
    bool drops_zeros) {
  ARGOSY_CHECK(
      layout.has_texts(),
      "[data.merge] samples have no ids, expected has_id of the format");
  std::unordered_map<std::string_view, std::vector<const std::byte*>> parts;
  std::vector<std::string_view> order;
  for (std::size_t i = 0; i < records.size(); ++i) {
    const std::string_view id = RecordView(layout, records[i]).id();
    auto& of_id = parts[id];
    if (of_id.empty()) {
      order.push_back(id);
    }
    of_id.push_back(records[i]);
  }
  MergeCounts counts;
  Records result;
  for (const std::string_view id : order) {
    const auto& of_id = parts[id];
    if (merge_size > 0 &&
        of_id.size() != static_cast<std::size_t>(merge_size)) {
      ++counts.wrong_size;
      continue;
    }
    const auto merged = merged_values(layout, Absence(drops_zeros), of_id);
    if (!merged) {
      ++counts.conflicts;
      continue;
    }
    build_record(
        layout, head_of(RecordView(layout, of_id[0])), *merged, result);
    ++counts.merged;
  }
  records = std::move(result);
  return counts;
}

} // namespace argosy::data
