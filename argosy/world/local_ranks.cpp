#include "argosy/world/local_ranks.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <map>
#include <string>
#include <vector>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/common/net.h"
#include "argosy/common/text.h"

namespace argosy {

namespace {

// Containers may have equal host names, and containers of one host have equal
// boot ids. Both together identify a host as a user sees it.
std::string host_identity() {
  const std::string boot =
      read_file("/proc/sys/kernel/random/boot_id").value_or("");
  return str(host_name(), "/", trim(boot));
}

} // namespace

// Every rank publishes its host and reads those of all others, so the store
// serves size * size requests. Only launchers that do not tell the local rank
// cause this.
void find_local_ranks(c10d::Store& store, LaunchInfo& info, Deadline deadline) {
  const std::string own = host_identity();
  store.set(str("host/", info.rank), {own.begin(), own.end()});
  std::map<std::string, int> node_of; // in order of first appearance by rank
  std::vector<std::string> hosts;
  for (int rank = 0; rank < info.size; ++rank) {
    const std::string key = str("host/", rank);
    store.wait({key}, deadline.remaining(std::chrono::hours(24)));
    const auto value = store.get(key);
    hosts.emplace_back(value.begin(), value.end());
    node_of.emplace(hosts.back(), static_cast<int>(node_of.size()));
  }
  info.local_rank = 0;
  info.local_size = 0;
  for (int rank = 0; rank < info.size; ++rank) {
    if (hosts[rank] == own) {
      info.local_rank += rank < info.rank ? 1 : 0;
      ++info.local_size;
    }
  }
  info.node_rank = node_of.at(own);
  info.num_nodes = static_cast<int>(node_of.size());
  info.knows_local = true;
}

} // namespace argosy
