#include "argosy/rpc/incoming_call.h"

#include <utility>

namespace argosy::rpc {

IncomingCall::IncomingCall(
    std::shared_ptr<const CallOrigin> origin,
    Message request,
    Deadline deadline,
    std::shared_ptr<ReplySink> sink)
    : origin_(std::move(origin)),
      request_(std::move(request)),
      deadline_(deadline),
      sink_(std::move(sink)) {}

void IncomingCall::reply(Message message) && {
  if (const auto sink = std::exchange(sink_, nullptr)) {
    sink->reply(std::move(message));
  }
}

void IncomingCall::fail(const std::exception_ptr& error) && {
  if (const auto sink = std::exchange(sink_, nullptr)) {
    sink->fail(error);
  }
}

} // namespace argosy::rpc
