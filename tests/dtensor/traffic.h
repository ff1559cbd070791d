#pragma once

#include <cstdint>

#include "argosy/comm/group.h"
#include "argosy/comm/traffic.h"
#include "tests/dtensor/no_value_checks.h"

namespace argosy::testing {

// What this rank has issued so far in the group of all ranks.
inline std::uint64_t num_collectives() {
  return get_group(0)->traffic().total().calls;
}

} // namespace argosy::testing
