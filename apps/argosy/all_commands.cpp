#include "apps/argosy/commands.h"

namespace argosy::cli {

std::span<const Command> all_commands() {
  static constexpr Command kCommands[] = {
      {"run", "start a program on several ranks", run},
      {"env",
       "show which launch environment a program would adopt, and why",
       env},
      {"ckpt", "look at, verify, compare, convert and prune checkpoints", ckpt},
      {"plan", "draw a pipeline schedule", plan},
      {"trace", "find the rank that the others wait for", trace},
      {"bench", "measure collectives, compared with Gloo and Open MPI", bench}};
  return kCommands;
}

} // namespace argosy::cli
