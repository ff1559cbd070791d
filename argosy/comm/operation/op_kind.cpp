#include "argosy/comm/operation/op_kind.h"

#include <array>

#include "argosy/common/error.h"

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
  const auto index = static_cast<std::size_t>(kind);
  ARGOSY_CHECK(
      index < kNames.size(),
      "[comm.op_kind] {} is not a value of OpKind",
      index);
  return kNames[index];
}

} // namespace argosy::comm
