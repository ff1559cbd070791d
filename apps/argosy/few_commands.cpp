#include "apps/argosy/commands.h"

namespace argosy::cli {

std::span<const Command> all_commands() {
  static constexpr Command kCommands[] = {
      {"run", "start a program on several ranks", run},
      {"env",
       "show which launch environment a program would adopt, and why",
       env},
      {"trace", "find the rank that the others wait for", trace}};
  return kCommands;
}

} // namespace argosy::cli
