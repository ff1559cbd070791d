#pragma once

#include <string>
#include <vector>

#include "argosy/common/error.h"
#include "argosy/data/slots/records.h"

// Samples as text, for tests of formats.
namespace argosy::data {

inline Slots some_slots() {
  return {
      {"label", SlotType::Float, {1}},
      {"user", SlotType::Id, {}},
      {"price", SlotType::Float, {}},
      {"place", SlotType::Id, {2}}};
}

// "a-1: label=0.5 user=7,8 price= place=1,2", with the id in front if there is
// one.
inline std::string text_of(const RecordLayout& layout, const std::byte* data) {
  const RecordView view(layout, data);
  std::vector<SlotValues> values;
  view.values(values);
  std::string text = view.id().empty() ? "" : str(view.id(), ":");
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Slot& slot = layout.slots()[i];
    text += str(text.empty() ? "" : " ", slot.name, "=");
    for (std::size_t k = 0; k < values[i].size; ++k) {
      text += k == 0 ? "" : ",";
      text += slot.type == SlotType::Id ? str(values[i].id(k))
                                        : str(values[i].number(k));
    }
  }
  return text;
}

} // namespace argosy::data
