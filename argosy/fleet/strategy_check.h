#pragma once

#include <vector>

namespace argosy::fleet {

struct DistributedStrategy;

// Two boolean settings that must not both be true, and the reason.
struct Exclusion {
  const char* one;
  const char* other;
  const char* why;
};

// All such pairs. docs/fleet.md lists them.
const std::vector<Exclusion>& exclusions();

// Throws InvalidArgument when the strategy enables two settings that exclude
// each other, or when a setting contradicts another. The message names both. No
// setting is ever ignored silently.
void check_strategy(const DistributedStrategy& strategy);

} // namespace argosy::fleet
