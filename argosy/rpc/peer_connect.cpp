// The connection of a peer: opened, lost, opened again.

#include <algorithm>
#include <utility>

#include "argosy/common/backoff.h"
#include "argosy/common/error.h"
#include "argosy/common/fault_point.h"
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
  std::shared_ptr<Connection> opening;
  {
    const std::lock_guard lock(mutex_);
    connecting_ = false;
    opening = std::exchange(opening_, nullptr);
    for (const auto& [sequence, call] : calls_) {
      calls.push_back(call);
    }
    for (const CallPtr& call : calls) {
      forget(call);
    }
  }
  fail(calls, failure, why);
  if (opening != nullptr) {
    opening->close(why);
  }
}

// With mutex_ held: calls that the connection which opens has not carried yet,
// in order.
std::vector<Peer::CallPtr> Peer::unsent() const {
  std::vector<CallPtr> calls;
  for (const auto& [sequence, call] : calls_) {
    if (call->sent_on != last_connection_) {
      calls.push_back(call);
    }
  }
  std::sort(calls.begin(), calls.end(), [](const auto& a, const auto& b) {
    return a->sequence < b->sequence;
  });
  return calls;
}

// With mutex_ held. If the peer is another one than before, it does not know
// what the old one ran: takes the calls that have to fail for that.
std::vector<Peer::CallPtr> Peer::take_unknown(const Dialed& dialed) {
  std::vector<CallPtr> sent;
  for (const auto& [sequence, call] : calls_) {
    if (call->sent_on != 0) {
      sent.push_back(call);
    }
  }
  if (dialed.session_known && dialed.instance == instance_) {
    caller_->resent += sent.size();
    return {};
  }
  for (const CallPtr& call : sent) {
    forget(call);
  }
  return sent;
}

// Sends what has waited for the connection, and only then lets others use it:
// a peer gets the calls of a thread in the order in which they were made.
void Peer::send_waiting(const std::shared_ptr<Connection>& connection) {
  while (true) {
    std::vector<CallPtr> calls;
    {
      const std::lock_guard lock(mutex_);
      calls = unsent();
      if (!closed_.empty()) {
        connecting_ = false;
        opening_ = nullptr;
        connection->close(closed_);
        return;
      }
      if (calls.empty() || connection->closed()) {
        connecting_ = false;
        connection_ = std::move(opening_);
        return;
      }
    }
    for (const CallPtr& call : calls) {
      send(connection, *call);
    }
  }
}

// A call that was made before the connection was there.
void Peer::send(
    const std::shared_ptr<Connection>& connection, PendingCall& call) {
  Outgoing out{connection};
  {
    const std::lock_guard lock(mutex_);
    if (!calls_.contains(call.sequence)) {
      return; // given up
    }
    prepare(call, out);
  }
  out.send(call);
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
  std::vector<CallPtr> unknown;
  {
    const std::lock_guard lock(mutex_);
    unknown = take_unknown(dialed);
    instance_ = dialed.instance;
    opening_ = connection;
    ++last_connection_;
  }
  fail(
      unknown,
      Failure::PeerLost,
      "it was restarted, or has forgotten this caller; whether the call ran is "
      "unknown");
  fault_point("rpc.connected");
  send_waiting(connection);
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
    connection = carrier();
  }
  if (connection != nullptr) {
    connection->close("broken on purpose");
  }
}

} // namespace argosy::rpc
