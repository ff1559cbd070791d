#include "argosy/optim/flat_layout.h"

#include <ostream>

#include "argosy/common/error.h"

namespace argosy::optim {

std::ostream& operator<<(std::ostream& out, const FlatLayout& layout) {
  out << layout.slots.size() << " tensors in " << layout.numel
      << " elements of " << layout.element_bytes << " bytes:";
  for (const FlatSlot& slot : layout.slots) {
    out << " [" << slot.begin << ", " << slot.end() << ')';
  }
  return out;
}

FlatLayout plan_flat(
    const std::vector<std::int64_t>& numels,
    std::size_t element_bytes,
    std::size_t alignment) {
  ARGOSY_CHECK(
      element_bytes > 0 && alignment > 0 && alignment % element_bytes == 0,
      "[optim.flat] alignment {}, expected a multiple of {}, the size of an "
      "element",
      alignment,
      element_bytes);
  FlatLayout layout{{}, 0, element_bytes, alignment};
  const auto unit = static_cast<std::int64_t>(alignment / element_bytes);
  for (const std::int64_t numel : numels) {
    ARGOSY_CHECK(numel >= 0, "[optim.flat] {} elements, expected >= 0", numel);
    layout.slots.push_back({layout.numel, numel});
    layout.numel += (numel + unit - 1) / unit * unit;
  }
  return layout;
}

} // namespace argosy::optim
