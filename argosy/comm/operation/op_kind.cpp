#include "argosy/comm/operation/op_kind.h"

#include <array>

namespace argosy::comm {

std::string to_string(OpKind kind) {
  constexpr std::array kNames = {
      "barrier",
      "all_reduce",
      "reduce",
      "broadcast",
      "all_gather",
      "reduce_scatter",
      "all_to_all",
      "gather",
      "scatter",
      "send",
      "recv"};
  static_assert(kNames.size() == kNumOpKinds);
  return kNames.at(static_cast<std::size_t>(kind));
}

} // namespace argosy::comm
