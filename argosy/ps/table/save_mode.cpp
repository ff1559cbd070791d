#include "argosy/ps/table/save_mode.h"

#include "argosy/common/error.h"

namespace argosy::ps {

SaveMode save_mode(int number) {
  ARGOSY_CHECK(
      number >= 0 && number <= 3,
      "[ps.save] mode {}, expected 0 (checkpoint), 1 (delta), 2 (base) or 3 "
      "(batch model)",
      number);
  return static_cast<SaveMode>(number);
}

std::string_view to_string(SaveMode mode) {
  constexpr std::string_view kNames[] = {
      "checkpoint", "delta", "base", "batch_model"};
  return kNames[static_cast<int>(mode)];
}

} // namespace argosy::ps
