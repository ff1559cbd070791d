#include "argosy/comm/hierarchy/connect_hosts.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <utility>

#include "argosy/comm/backend/store_gather_strings.h"
#include "argosy/comm/hierarchy/hierarchical_backend.h"
#include "argosy/comm/hierarchy/hosts.h"
#include "argosy/comm/memory/memory_backend.h"
#include "argosy/comm/message/c10d_failure_store.h"
#include "argosy/comm/message/message_backend.h"
#include "argosy/common/error.h"

namespace argosy::comm::hierarchy {

namespace {

std::unique_ptr<Backend> connect_own_host(
    const Members& members, const Hosts& hosts) {
  const int host = hosts.host_of(members.rank);
  const auto& ranks = hosts.ranks[static_cast<std::size_t>(host)];
  const int local_rank = hosts.local_rank_of(members.rank);
  std::vector<int> global_ranks;
  for (const int rank : ranks) {
    global_ranks.push_back(
        members.global_ranks[static_cast<std::size_t>(rank)]);
  }
  const int size = static_cast<int>(ranks.size());
  return std::make_unique<memory::MemoryBackend>(
      members.group,
      local_rank,
      size,
      gather_strings_through(
          members.store, str("host/", host), local_rank, size),
      memory::MemoryOptions{.numbers = std::move(global_ranks)});
}

} // namespace

std::unique_ptr<Backend> connect_hosts(
    const Members& members, const MakeNetwork& network) {
  Hosts hosts = find_hosts(
      members.rank,
      gather_strings_through(
          members.store, "hosts", members.rank, members.size()));
  // One rank on each host: levels would only add steps.
  if (hosts.size() == members.size()) {
    return message::make_message_backend(
        members.group,
        network(members),
        message::make_c10d_failure_store(members.store),
        members.global_ranks);
  }
  auto own_host = connect_own_host(members, hosts);
  return make_hierarchical_backend(
      {.group = members.group,
       .global_ranks = members.global_ranks,
       .hosts = std::move(hosts),
       .host = std::move(own_host),
       .network = network(members),
       .failure_store = message::make_c10d_failure_store(members.store)});
}

} // namespace argosy::comm::hierarchy
