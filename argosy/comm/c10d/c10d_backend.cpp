#include "argosy/comm/c10d/c10d_backend.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <utility>

#include "argosy/comm/backend/store_gather_strings.h"
#include "argosy/comm/c10d/c10d_messenger.h"
#include "argosy/comm/message/c10d_failure_store.h"
#include "argosy/comm/message/listen_address.h"
#include "argosy/comm/message/message_backend.h"
#include "argosy/common/error.h"
#include "argosy/common/sigpipe.h"

namespace argosy::comm {

std::unique_ptr<Backend> make_c10d_backend(
    std::string group_name,
    c10::intrusive_ptr<::c10d::ProcessGroup> group,
    const c10::intrusive_ptr<::c10d::Store>& store,
    std::vector<int> global_ranks) {
  return message::make_message_backend(
      std::move(group_name),
      make_c10d_messenger(std::move(group)),
      store ? message::make_c10d_failure_store(store) : nullptr,
      std::move(global_ranks));
}

std::unique_ptr<Backend> make_c10d_gloo_backend(
    std::string group_name,
    const c10::intrusive_ptr<::c10d::Store>& store,
    int rank,
    int size,
    Deadline deadline,
    std::vector<int> global_ranks) {
  const WithoutSigpipe guard; // also of the group's threads
  auto options = ::c10d::ProcessGroupGloo::Options::create();
  options->timeout = deadline.remaining(std::chrono::hours(24));
  options->devices.push_back(
      ::c10d::ProcessGroupGloo::createDeviceForHostname(message::listen_address(
          gather_strings_through(store, "address", rank, size))));
  // Its other threads are for collectives, which are not used.
  options->threads = 1;
  auto group = c10::make_intrusive<::c10d::ProcessGroupGloo>(
      c10::make_intrusive<::c10d::PrefixStore>("gloo", store),
      rank,
      size,
      options);
  return make_c10d_backend(
      std::move(group_name), std::move(group), store, std::move(global_ranks));
}

} // namespace argosy::comm
