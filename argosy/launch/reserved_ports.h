#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "argosy/common/net.h"

namespace argosy::launch {

// The ports that a node holds free for its workers during an attempt.
class ReservedPorts {
 public:
  // Lets go of the worker ports held so far, and takes new ones.
  std::vector<std::uint16_t> reserve(int count);

  // Exactly `port`, or a free one for 0; the same again when asked again.
  // Throws SystemError that names --master-port.
  std::uint16_t reserve_master(std::uint16_t port);

 private:
  std::vector<ReservedPort> workers_;
  std::optional<ReservedPort> master_;
};

} // namespace argosy::launch
