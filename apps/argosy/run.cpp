#include "argosy/launch/run.h"
#include "apps/argosy/commands.h"

namespace argosy::cli {

int run(const std::vector<std::string>& arguments) {
  return launch::run(arguments);
}

} // namespace argosy::cli
