#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "argosy/common/net.h"

namespace argosy::launch {

// The ports that a node reserves for its workers during an attempt.
class ReservedPorts {
 public:
  // Releases the workers' ports and reserves new ones.
  std::vector<std::uint16_t> reserve(int count);

  // Reserves exactly `port`, or any free one if it is 0; later calls return the
  // same. Throws SystemError, naming --master-port.
  std::uint16_t reserve_master(std::uint16_t port);

 private:
  std::vector<ReservedPort> workers_;
  std::optional<ReservedPort> master_;
};

} // namespace argosy::launch
