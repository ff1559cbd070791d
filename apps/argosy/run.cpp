#include "argosy/launch/run.h"
#include "apps/argosy/commands.h"
#include "argosy/comm/flight/live_hang.h"

namespace argosy::cli {

int run(const std::vector<std::string>& arguments) {
  return launch::run(
      arguments, {comm::flight::collect_records, comm::flight::describe_hang});
}

} // namespace argosy::cli
