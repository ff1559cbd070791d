#pragma once

#include <cstdint>

#include "argosy/comm/operation/label.h"

namespace argosy::comm {

// The operation that a thread carries out, as the flight recorder knows it, so
// that errors name and count it as records and traces do.
struct CurrentOperation {
  bool is_known = false;
  std::uint64_t sequence = 0; // as flight::Operation's
  int root = -1;              // global rank; of messages, the peer
  OpLabel label;
};

// Of the calling thread.
CurrentOperation& current_operation();

} // namespace argosy::comm
