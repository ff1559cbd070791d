#include "argosy/comm/mpi/channel.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <string>
#include <utility>

#include "argosy/comm/connect.h"
#include "argosy/comm/message/message_backend.h"
#include "argosy/comm/message/store_board.h"
#include "argosy/common/error.h"

namespace argosy::comm::mpi {

namespace {

// Communicators that were split may have groups of one name and other ranks.
std::string prefix_of(const Members& members) {
  return str("mpi/", members.global_ranks.front());
}

} // namespace

std::int64_t take_number(c10d::Store& world_store) {
  return world_store.add("mpi/numbers", 1);
}

std::uint64_t agree_on_channel(
    c10d::Store& world_store, const Members& members) {
  const std::string key = prefix_of(members) + "/channel";
  if (members.rank == 0) {
    const std::int64_t channel = take_number(world_store);
    const std::string text = std::to_string(channel);
    members.store->set(key, {text.begin(), text.end()});
    return static_cast<std::uint64_t>(channel);
  }
  members.store->wait({key}, members.deadline.remaining());
  const auto text = members.store->get(key);
  return std::stoull(std::string(text.begin(), text.end()));
}

std::unique_ptr<Backend> make_mpi_backend(
    const Members& members, std::unique_ptr<message::Messenger> messenger) {
  return message::make_message_backend(
      members.group,
      std::move(messenger),
      message::make_store_board(c10::make_intrusive<c10d::PrefixStore>(
          prefix_of(members), members.store)));
}

} // namespace argosy::comm::mpi
