#pragma once

#include <vector>

namespace argosy::fleet {

struct DistributedStrategy;

// Two switches that cannot both be on.
struct Exclusion {
  const char* one;
  const char* other;
  const char* why;
};

const std::vector<Exclusion>& exclusions();

// Throws InvalidArgument that names both switches when two of a strategy
// exclude each other: nothing is left out without a word.
void check_combination(const DistributedStrategy& strategy);

} // namespace argosy::fleet
