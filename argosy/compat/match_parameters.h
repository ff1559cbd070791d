#pragma once

#include <map>
#include <string>
#include <vector>

namespace argosy {

// What a load left as it was; ascending.
struct NotLoaded {
  std::vector<std::string> param_not_load; // of the net, not in the checkpoint
  std::vector<std::string> ckpt_not_load;  // of the checkpoint, not in the net

  bool operator==(const NotLoaded&) const = default;
};

namespace compat {

struct ParameterMatches {
  std::map<std::string, std::string> in_checkpoint; // by name in the net
  NotLoaded not_loaded;

  bool operator==(const ParameterMatches&) const = default;
};

// Pairs the names of a net with those of a checkpoint. Unless `strict`, a name
// that has no equal takes the only one that ends as it does, after a dot:
// "fc.weight" and "net.fc.weight".
ParameterMatches match_parameters(
    const std::vector<std::string>& net,
    const std::vector<std::string>& checkpoint,
    bool strict);

} // namespace compat
} // namespace argosy
