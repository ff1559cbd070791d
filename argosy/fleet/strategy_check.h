#pragma once

#include <string>
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

// A setting that does nothing together with others.
struct WithoutEffect {
  const char* setting;
  bool (*is_idle)(const DistributedStrategy& strategy);
  const char* why; // and what to write instead
};

// docs/fleet.md lists them.
const std::vector<WithoutEffect>& settings_without_effect();

// The settings that were changed, but belong to a switch that is off. That is
// no error: a strategy keeps them for the day the switch is on.
std::vector<std::string> settings_of_switches_that_are_off(
    const DistributedStrategy& strategy);

// Throws InvalidArgument when the strategy enables settings that exclude each
// other, when a setting contradicts another, or when it has one that does
// nothing. The message names all of them, and the file that they came from.
void check_strategy(const DistributedStrategy& strategy);

} // namespace argosy::fleet
