#include "argosy/comm/gloo/gloo_backend.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "argosy/comm/backend/signed_store.h"
#include "argosy/comm/backend/store_gather_strings.h"
#include "argosy/comm/gloo/gloo_messenger.h"
#include "argosy/comm/message/c10d_failure_store.h"
#include "argosy/comm/message/listen_address.h"
#include "argosy/comm/message/message_backend.h"

namespace argosy::comm::gloo {

std::unique_ptr<message::Messenger> connect_gloo(const Members& members) {
  const auto store =
      c10::make_intrusive<::c10d::PrefixStore>("gloo", signed_store(members));
  return make_gloo_messenger(
      store,
      members.rank,
      members.size(),
      message::listen_address(gather_strings_through(
          store, "address", members.rank, members.size())),
      members.deadline);
}

std::unique_ptr<Backend> make_gloo_backend(const Members& members) {
  return message::make_message_backend(
      members.group,
      connect_gloo(members),
      message::make_c10d_failure_store(members.store),
      members.global_ranks);
}

} // namespace argosy::comm::gloo
