#include "argosy/store/resolve.h"

#include <netdb.h>

#include <cstring>
#include <future>
#include <thread>

#include "argosy/common/backoff.h"
#include "argosy/common/error.h"

namespace argosy::store {

namespace {

struct Answer {
  int error = 0; // of getaddrinfo()
  std::vector<SocketAddress> addresses;
};

Answer look_up(const Endpoint& endpoint, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(endpoint.port);
  Answer answer;
  answer.error =
      ::getaddrinfo(endpoint.host.c_str(), port.c_str(), &hints, &found);
  if (answer.error != 0) {
    return answer;
  }
  for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
    SocketAddress address;
    std::memcpy(&address.storage, a->ai_addr, a->ai_addrlen);
    address.size = a->ai_addrlen;
    answer.addresses.push_back(address);
  }
  ::freeaddrinfo(found);
  return answer;
}

// getaddrinfo() takes no deadline, so it runs on a thread that may be
// abandoned; the result is then EAI_AGAIN.
Answer look_up_by(const Endpoint& endpoint, Deadline deadline) {
  std::promise<Answer> promise;
  auto answer = promise.get_future();
  std::thread([promise = std::move(promise), endpoint]() mutable {
    promise.set_value(look_up(endpoint, 0));
  }).detach();
  if (answer.wait_until(deadline.time()) != std::future_status::ready) {
    return {EAI_AGAIN, {}};
  }
  return answer.get();
}

} // namespace

std::vector<SocketAddress> resolve(
    const Endpoint& endpoint, Deadline deadline) {
  // Numeric addresses need neither a name server nor a thread.
  Answer answer = look_up(endpoint, AI_NUMERICHOST);
  for (Backoff backoff; answer.error != 0; backoff.pause(deadline)) {
    answer = look_up_by(endpoint, deadline);
    // The name server may be out of reach for a moment; other errors are final.
    const bool may_pass = answer.error == EAI_AGAIN;
    if (answer.error != 0 && (!may_pass || deadline.expired())) {
      throw StoreError(str_format(
          "[store.connect] host {} of {} does not resolve: {}",
          endpoint.host,
          endpoint.text(),
          ::gai_strerror(answer.error)));
    }
  }
  return answer.addresses;
}

} // namespace argosy::store
