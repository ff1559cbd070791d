// The connection of a peer: opened, lost, opened again.

#include <algorithm>

#include "argosy/common/backoff.h"
#include "argosy/common/error.h"
#include "argosy/common/rank_label.h"
#include "argosy/rpc/peer.h"

namespace argosy::rpc {

// A peer that takes each connection and closes it must not keep both sides
// busy.
void Peer::pause_before_connecting() {
  constexpr int kFree = 2;
  constexpr int kLongest = 8; // 2^8 ms
  int vain = 0;
  {
    const std::lock_guard lock(mutex_);
    vain = vain_connections_++;
  }
  if (vain > kFree) {
    const std::chrono::milliseconds pause(
        1 << std::min(vain - kFree, kLongest));
    Backoff(pause, pause).pause(Deadline::after(pause));
  }
}

void Peer::connect() {
  const EndpointOptions& own = caller_->options;
  pause_before_connecting();
  try {
    Dialed dialed = dial(
        caller_->dialer,
        address_,
        {.id = own.id, .name = own.name, .session = session_},
        Deadline::after(own.patience));
    ++caller_->connects;
    connected(std::move(dialed));
  } catch (const StoreError& error) {
    connect_failed(Failure::Refused, without_rank_label(error.what()));
  } catch (const std::exception& error) {
    connect_failed(Failure::PeerLost, without_rank_label(error.what()));
  }
}

void Peer::connect_failed(Failure failure, const std::string& why) {
  std::vector<CallPtr> calls;
  {
    const std::lock_guard lock(mutex_);
    connecting_ = false;
    for (const auto& [sequence, call] : calls_) {
      calls.push_back(call);
    }
    for (const CallPtr& call : calls) {
      forget(call);
    }
  }
  fail(calls, failure, why);
}

// With mutex_ held: what has to be sent over a new connection, in order. If the
// peer is another one than before, it does not know what the old one ran: then
// `lost` becomes true and the result are the calls that fail.
std::vector<Peer::CallPtr> Peer::to_send_again(
    const Dialed& dialed, bool& lost) {
  std::vector<CallPtr> waiting;
  std::vector<CallPtr> sent;
  for (const auto& [sequence, call] : calls_) {
    (call->sent_on == 0 ? waiting : sent).push_back(call);
  }
  lost =
      !sent.empty() && (!dialed.session_known || dialed.instance != instance_);
  if (lost) {
    return sent;
  }
  caller_->resent += sent.size();
  waiting.insert(waiting.end(), sent.begin(), sent.end());
  std::sort(waiting.begin(), waiting.end(), [](const auto& a, const auto& b) {
    return a->sequence < b->sequence;
  });
  return waiting;
}

void Peer::connected(Dialed dialed) {
  const auto connection = std::make_shared<Connection>(
      caller_->loop,
      std::move(dialed.channel),
      dialed.ring,
      caller_->options.limits.message_bytes,
      caller_->buffers);
  // Before others see it.
  connection->start(weak_from_this(), std::move(dialed.process));
  std::vector<CallPtr> calls;
  bool lost = false;
  {
    const std::lock_guard lock(mutex_);
    connecting_ = false;
    if (!closed_.empty()) {
      connection->close(closed_);
      return;
    }
    calls = to_send_again(dialed, lost);
    if (lost) {
      for (const CallPtr& call : calls) {
        forget(call);
      }
    }
    instance_ = dialed.instance;
    connection_ = connection;
    ++last_connection_;
  }
  if (lost) {
    fail(
        calls,
        Failure::PeerLost,
        "it was restarted, or has forgotten this caller; whether the call ran "
        "is unknown");
    const std::lock_guard lock(mutex_);
    calls.clear();
    bool none = false;
    dialed.session_known = true;
    calls = to_send_again(dialed, none);
  }
  for (const CallPtr& call : calls) {
    send(connection, *call);
  }
  if (connection->closed()) {
    // Perhaps before it was ours, when on_closed() did not know it.
    on_closed(*connection, "the peer has closed the connection");
  }
  const std::lock_guard lock(mutex_);
  for (const auto& [sequence, call] : calls_) {
    call->wake_up(); // so that its thread receives
  }
}

void Peer::on_closed(Connection& connection, const std::string& why) {
  std::vector<CallPtr> lost;
  bool again = false;
  {
    const std::lock_guard lock(mutex_);
    if (connection_.get() != &connection) {
      return;
    }
    connection_ = nullptr;
    for (const auto& [sequence, call] : calls_) {
      if (call->sent_on == 0 || call->exactly_once) {
        again = true;
        call->wake_up();
      } else {
        lost.push_back(call);
      }
    }
    for (const CallPtr& call : lost) {
      forget(call);
    }
  }
  fail(lost, Failure::PeerLost, str(why, "; whether the call ran is unknown"));
  if (again) {
    const std::lock_guard lock(mutex_);
    connection_or_connect();
  }
}

void Peer::close(Failure failure, const std::string& why) {
  std::shared_ptr<Connection> connection;
  std::vector<CallPtr> calls;
  {
    const std::lock_guard lock(mutex_);
    closed_ = why;
    closed_failure_ = failure;
    connection = std::move(connection_);
    connection_ = nullptr;
    for (const auto& [sequence, call] : calls_) {
      calls.push_back(call);
    }
    for (const CallPtr& call : calls) {
      forget(call);
    }
    room_.notify_all();
  }
  fail(calls, failure, why);
  if (connection != nullptr) {
    connection->close(why);
  }
}

void Peer::break_connection() {
  std::shared_ptr<Connection> connection;
  {
    const std::lock_guard lock(mutex_);
    connection = connection_;
  }
  if (connection != nullptr) {
    connection->close("broken on purpose");
  }
}

} // namespace argosy::rpc
