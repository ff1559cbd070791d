#include "argosy/comm/mpi/channel.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <string>

#include "argosy/comm/connect.h"
#include "argosy/common/error.h"

namespace argosy::comm::mpi {

std::int64_t take_number(c10d::Store& world_store) {
  return world_store.add("mpi/numbers", 1);
}

std::int64_t agree_on_channel(
    c10d::Store& world_store, const Members& members) {
  // Communicators that were split have groups of one number and other ranks.
  const std::string key = str("mpi/", members.global_ranks.front());
  if (members.rank == 0) {
    const std::int64_t channel = take_number(world_store);
    const std::string text = std::to_string(channel);
    members.store->set(key, {text.begin(), text.end()});
    return channel;
  }
  members.store->wait({key}, members.deadline.remaining());
  const auto text = members.store->get(key);
  return std::stoll(std::string(text.begin(), text.end()));
}

} // namespace argosy::comm::mpi
