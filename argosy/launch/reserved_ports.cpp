#include "argosy/launch/reserved_ports.h"

#include "argosy/common/error.h"

namespace argosy::launch {

std::vector<std::uint16_t> ReservedPorts::reserve(int count) {
  workers_.clear();
  std::vector<std::uint16_t> numbers;
  for (int i = 0; i < count; ++i) {
    workers_.emplace_back();
    numbers.push_back(workers_.back().port());
  }
  return numbers;
}

std::uint16_t ReservedPorts::reserve_master(std::uint16_t port) {
  // Kept over restarts, so that every attempt uses the same master port.
  if (!master_) {
    try {
      master_.emplace(port);
    } catch (const SystemError& error) {
      throw SystemError(
          str("[launch.ports] --master-port ", port, ": ", error.what()));
    }
  }
  return master_->port();
}

} // namespace argosy::launch
