#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>

#include "argosy/common/deadline.h"
#include "argosy/rpc/message.h"

namespace argosy::rpc {

using PeerId = int; // index in the list of workers

// Where the answer to a call goes; the first one counts. If the last reference
// goes without an answer, the caller gets an error.
class ReplySink {
 public:
  virtual ~ReplySink() = default;
  virtual void reply(Message message) = 0;
  virtual void fail(const std::exception_ptr& error) = 0;
  virtual bool cancelled() const = 0;
};

struct CallOrigin {
  PeerId caller = -1;
  std::string caller_name{};
};

// A call as the callee sees it. Move-only; it may be answered later and from
// any thread. If it is destroyed unanswered, the caller gets an error.
class IncomingCall {
 public:
  IncomingCall(
      std::shared_ptr<const CallOrigin> origin,
      Message request,
      Deadline deadline,
      std::shared_ptr<ReplySink> sink);
  IncomingCall(IncomingCall&&) noexcept = default;
  IncomingCall& operator=(IncomingCall&&) noexcept = default;

  PeerId caller() const { return origin_->caller; }
  const std::string& caller_name() const { return origin_->caller_name; }

  const Message& request() const { return request_; }
  Message take_request() { return std::move(request_); }

  // What the caller's deadline leaves, on this host's clock. After it, nobody
  // waits for the answer.
  Deadline deadline() const { return deadline_; }

  // Whether the caller has cancelled the call or is gone.
  bool cancelled() const { return sink_ == nullptr || sink_->cancelled(); }

  // Answers. Does not block and does not throw; if the caller is gone, nothing
  // happens.
  void reply(Message message) &&;
  void fail(const std::exception_ptr& error) &&;

 private:
  std::shared_ptr<const CallOrigin> origin_;
  Message request_;
  Deadline deadline_;
  std::shared_ptr<ReplySink> sink_; // null once answered
};

// What it throws goes to the caller.
using Handler = std::function<void(IncomingCall)>;

} // namespace argosy::rpc
