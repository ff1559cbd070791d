#pragma once

#include <cstdint>
#include <list>
#include <mutex>

#include "argosy/common/net.h"

namespace argosy::testing {

// A port for a program that the test starts. It stays reserved until the test
// ends: the system would give a port that is free again to any client of
// another test that connects in between.
inline std::uint16_t free_port() {
  static std::mutex mutex;
  static std::list<ReservedPort> held;
  const std::lock_guard lock(mutex);
  return held.emplace_back().port();
}

} // namespace argosy::testing
