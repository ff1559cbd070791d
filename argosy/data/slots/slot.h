#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace argosy::data {

enum class SlotType {
  Id,    // 64 bits: the key of a feature
  Float, // 32 bits
};

// One column of a slot dataset. A sample has any number of values of a slot
// (the ids of a bag), or exactly those of a shape (dense).
struct Slot {
  std::string name;
  SlotType type = SlotType::Id;
  std::vector<std::int64_t> shape = {}; // of a sample; empty: any number

  bool is_dense() const { return !shape.empty(); }
  // How many values a sample has of a dense slot.
  std::int64_t num_values() const;
  // Of one value.
  std::size_t value_bytes() const { return type == SlotType::Id ? 8 : 4; }

  bool operator==(const Slot&) const = default;
};

using Slots = std::vector<Slot>;

// Throws InvalidArgument if there is none, names repeat, or a shape is not
// positive.
void check_slots(const Slots& slots);

// Index of the slot of that name. Throws InvalidArgument, with the names there
// are.
std::size_t slot_index(const Slots& slots, const std::string& name);

} // namespace argosy::data
