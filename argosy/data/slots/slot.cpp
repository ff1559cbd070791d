#include "argosy/data/slots/slot.h"

#include <set>

#include "argosy/common/error.h"
#include "argosy/common/text.h"

namespace argosy::data {

std::int64_t Slot::num_values() const {
  std::int64_t result = 1;
  for (const std::int64_t size : shape) {
    result *= size;
  }
  return result;
}

void check_slots(const Slots& slots) {
  ARGOSY_CHECK(!slots.empty(), "[data.slots] no slot, expected at least one");
  std::set<std::string> names;
  for (const Slot& slot : slots) {
    ARGOSY_CHECK(!slot.name.empty(), "[data.slots] a slot without a name");
    ARGOSY_CHECK(
        names.insert(slot.name).second,
        "[data.slots] two slots are called \"{}\"",
        slot.name);
    std::int64_t values = 1;
    for (const std::int64_t size : slot.shape) {
      ARGOSY_CHECK(
          size > 0 && !__builtin_mul_overflow(values, size, &values) &&
              values <= (std::int64_t{1} << 24),
          "[data.slots] slot \"{}\": a size of its shape is {}, expected "
          "positive sizes and at most 2^24 values",
          slot.name,
          size);
    }
  }
}

std::size_t slot_index(const Slots& slots, const std::string& name) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].name == name) {
      return i;
    }
    names.push_back(slots[i].name);
  }
  const auto near = nearest(name, names);
  ARGOSY_CHECK(
      false,
      "[data.slots] no slot \"{}\"{}, expected one of {}",
      name,
      near ? str(" (did you mean \"", *near, "\"?)") : "",
      join(names, ", "));
  return 0;
}

} // namespace argosy::data
