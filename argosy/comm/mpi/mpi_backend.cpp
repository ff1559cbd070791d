#include "argosy/comm/mpi/mpi_backend.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <string>
#include <utility>

#include "argosy/comm/backend/backend.h"
#include "argosy/comm/message/c10d_failure_store.h"
#include "argosy/comm/message/message_backend.h"
#include "argosy/common/error.h"
#include "argosy/world/world.h"

namespace argosy::comm::mpi {

namespace {

std::int64_t take_number(c10d::Store& world_store) {
  return world_store.add("mpi/numbers", 1);
}

// The first of the members takes a number, and tells the others.
std::uint64_t agree_on_channel(
    c10d::Store& world_store, c10d::Store& own_store, const Members& members) {
  if (members.rank == 0) {
    const std::int64_t channel = take_number(world_store);
    const std::string text = std::to_string(channel);
    own_store.set("channel", {text.begin(), text.end()});
    return static_cast<std::uint64_t>(channel);
  }
  own_store.wait({"channel"}, members.deadline.remaining());
  const auto text = own_store.get("channel");
  return std::stoull(std::string(text.begin(), text.end()));
}

} // namespace

MakeNetwork make_network(World& world, MakeMessenger make_messenger) {
  return [world_store = world.store(),
          make = std::move(make_messenger)](const Members& members) {
    c10d::PrefixStore store("mpi", members.store);
    return make(agree_on_channel(*world_store, store, members), members);
  };
}

MakeBackend make_backend(MakeNetwork network) {
  return [network = std::move(network)](const Members& members) {
    return message::make_message_backend(
        members.group,
        network(members),
        message::make_c10d_failure_store(members.store));
  };
}

std::int64_t take_number(World& world) {
  return take_number(*world.store());
}

} // namespace argosy::comm::mpi
