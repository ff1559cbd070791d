#include "apps/argosy/commands.h"

namespace argosy::cli {

int run(const std::vector<std::string>&) {
  return 0;
}

} // namespace argosy::cli
