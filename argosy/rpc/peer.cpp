#include "argosy/rpc/peer.h"

#include <algorithm>

#include "argosy/common/error.h"
#include "argosy/common/text.h"

namespace argosy::rpc {

namespace {

// Results of this size are confirmed at once, so that the callee need not keep
// them until the next call.
constexpr std::size_t kConfirmedAtOnce = 64u << 10;

std::int64_t time_left_us(Deadline deadline) {
  return std::max<std::int64_t>(
      0,
      std::chrono::duration_cast<std::chrono::microseconds>(
          deadline.time() - Deadline::Clock::now())
          .count());
}

} // namespace

PendingCall::PendingCall(
    std::shared_ptr<Peer> peer_called,
    std::string_view method_called,
    Message request,
    const CallOptions& call_options)
    : peer(std::move(peer_called)),
      method(method_called),
      deadline(call_options.deadline),
      exactly_once(call_options.exactly_once),
      bytes(request.bytes()),
      message(std::move(request)) {}

bool PendingCall::await(Deadline limit) {
  while (!done()) {
    if (deadline.expired()) {
      peer->give_up(
          *this,
          Failure::Timeout,
          str("no answer within ", deadline.limit_text()));
    } else if (limit.expired()) {
      return false;
    } else {
      peer->help(*this, deadline.time() < limit.time() ? deadline : limit);
    }
  }
  return true;
}

void PendingCall::on_done(Callback callback) {
  FutureState::on_done(std::move(callback));
  peer->add_callback(*this);
}

void PendingCall::cancel() {
  peer->give_up(*this, Failure::Cancelled, "cancelled by its caller");
}

Peer::Peer(std::shared_ptr<Caller> caller, PeerId id, PeerInfo info)
    : caller_(std::move(caller)),
      id_(id),
      info_(std::move(info)),
      address_(parse_address(info_.address)),
      session_(to_hex(store::random_bytes(12))) {}

std::exception_ptr Peer::error(
    const PendingCall& call, Failure failure, const std::string& why) const {
  return std::make_exception_ptr(RpcError(
      failure,
      info_.name,
      str_format(
          "[rpc.call] {} of {} (worker {}) failed, {}: {}",
          call.method,
          info_.name,
          id_,
          to_string(failure),
          why)));
}

void Peer::fail(
    const std::vector<CallPtr>& calls,
    Failure failure,
    const std::string& why) {
  for (const CallPtr& call : calls) {
    call->complete(error(*call, failure, why));
  }
}

// ---- calls

void Peer::wait_for_room(
    std::unique_lock<std::mutex>& lock, std::size_t bytes, Deadline deadline) {
  const Limits& limits = caller_->options.limits;
  const auto has_room = [&] {
    return calls_.empty() || !closed_.empty() ||
        (calls_.size() < limits.calls_in_flight &&
         bytes_ + bytes <= limits.bytes_in_flight);
  };
  if (has_room()) {
    return;
  }
  const std::string what = str_format(
      "{} calls with {} bytes are under way to it", calls_.size(), bytes_);
  if (caller_->loop->on_thread()) {
    throw RpcError(
        Failure::Refused,
        info_.name,
        str("[rpc.call] ", info_.name, " refused: ", what));
  }
  if (!room_.wait_until(lock, deadline.time(), has_room)) {
    throw RpcError(
        Failure::Timeout,
        info_.name,
        str_format(
            "[rpc.call] {} timeout: {}, and none ended within {}",
            info_.name,
            what,
            deadline.limit_text()));
  }
}

Peer::CallPtr Peer::add(
    std::string_view method,
    Message message,
    const CallOptions& options,
    Outgoing& out) {
  ARGOSY_CHECK(
      !method.empty() && method.size() <= kLongestMethod &&
          message.parts.size() <= kMostParts,
      "[rpc.call] a name of {} bytes and {} parts, expected 1 to {} bytes and "
      "at most {} parts",
      method.size(),
      message.parts.size(),
      kLongestMethod,
      kMostParts);
  ARGOSY_CHECK(
      message.bytes() <= caller_->options.limits.message_bytes,
      "[rpc.call] a message of {} bytes, expected at most {}",
      message.bytes(),
      caller_->options.limits.message_bytes);
  auto call = std::make_shared<PendingCall>(
      shared_from_this(), method, std::move(message), options);
  std::unique_lock lock(mutex_);
  wait_for_room(lock, call->bytes, options.deadline);
  if (!closed_.empty()) {
    call->complete(error(*call, closed_failure_, closed_));
    return call;
  }
  call->sequence = ++last_sequence_;
  calls_.emplace(call->sequence, call);
  bytes_ += call->bytes;
  if (call->exactly_once) {
    once_.insert(call->sequence);
  }
  next_deadline_ = std::min(next_deadline_, call->deadline.time());
  out.connection = connection_or_connect();
  if (out.connection != nullptr) {
    prepare(*call, out);
  }
  return call;
}

// With mutex_ held. Null while there is none; then connects.
std::shared_ptr<Connection> Peer::connection_or_connect() {
  if (connection_ == nullptr && !connecting_ && closed_.empty()) {
    connecting_ = true;
    caller_->pool->run_at_once(
        [self = shared_from_this()] { self->connect(); });
  }
  return connection_;
}

std::shared_ptr<PendingCall> Peer::call(
    std::string_view method, Message message, const CallOptions& options) {
  Outgoing out;
  CallPtr call = add(method, std::move(message), options, out);
  caller_->loop->at_latest(call->deadline.time());
  if (out.connection != nullptr) {
    out.send(*call);
    // What could not be sent at once needs the loop. For the answer, whoever
    // asks for it will drive.
    if (out.connection->queued_bytes() > 0) {
      out.connection->arm();
    } else {
      out.connection->arm_soon();
    }
  }
  return call;
}

// The thread that waits reads the deadline's clock and the connection itself,
// so neither the loop's timer nor its eyes are needed. It begins to receive
// before it sends, so that the reply does not wake the loop.
std::shared_ptr<PendingCall> Peer::call_and_drive(
    std::string_view method, Message message, const CallOptions& options) {
  Outgoing out;
  CallPtr call = add(method, std::move(message), options, out);
  if (out.connection == nullptr) {
    return call;
  }
  const bool driven = out.connection->drive(
      [&call] { return call->done(); },
      call->deadline,
      [&] { out.send(*call); });
  if (driven) {
    after_drive(*out.connection);
  } else {
    out.send(*call);
  }
  return call;
}

// All exactly-once calls below are answered.
std::uint64_t Peer::confirmed() const {
  return once_.empty() ? last_sequence_ + 1 : *once_.begin();
}

// With mutex_ held: the call goes over connection_ now.
void Peer::prepare(PendingCall& call, Outgoing& out) {
  out.header = {.kind = FrameKind::Call, .sequence = call.sequence};
  if (call.exactly_once) {
    out.header.flags = kExactlyOnce | (call.sent_on != 0 ? kRepeated : 0);
    out.message = call.message;
  } else {
    out.message = std::move(call.message);
  }
  call.sent_on = last_connection_;
  out.header.confirmed = confirmed();
}

void Peer::Outgoing::send(const PendingCall& call) {
  header.time_left_us = time_left_us(call.deadline);
  connection->send(header, call.method, message);
}

void Peer::add_callback(PendingCall& call) {
  std::shared_ptr<Connection> connection;
  {
    const std::lock_guard lock(mutex_);
    if (call.has_callback || !calls_.contains(call.sequence)) {
      return;
    }
    call.has_callback = true;
    ++callbacks_;
    connection = connection_;
  }
  if (connection != nullptr) {
    connection->arm();
  }
}

void Peer::help(PendingCall& call, Deadline limit) {
  std::shared_ptr<Connection> connection;
  {
    const std::lock_guard lock(mutex_);
    connection = connection_;
  }
  if (connection == nullptr) {
    call.rest(limit);
    return;
  }
  const auto done = [&call] { return call.done(); };
  if (connection->drive(done, limit)) {
    after_drive(*connection);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    followers_.push_back(&call);
  }
  // Again: who read may have left before it could see us.
  if (!connection->drive(done, limit)) {
    connection->arm();
    call.rest(limit);
  }
  {
    const std::lock_guard lock(mutex_);
    std::erase(followers_, &call);
  }
  after_drive(*connection);
}

// Somebody else has to receive now, if there is something to come. Also called
// by one who was woken for that, and is done already.
void Peer::after_drive(Connection& connection) {
  bool expected = false;
  bool at_once = connection.queued_bytes() > 0;
  {
    const std::lock_guard lock(mutex_);
    for (PendingCall* follower : followers_) {
      if (!follower->done()) {
        follower->wake_up();
        return;
      }
    }
    expected = !calls_.empty();
    at_once = at_once || callbacks_ > 0;
  }
  if (at_once) {
    connection.arm();
  } else if (expected) {
    connection.arm_soon();
  }
}

// ---- ends of calls

void Peer::forget(const CallPtr& call) {
  calls_.erase(call->sequence);
  once_.erase(call->sequence);
  bytes_ -= call->bytes;
  callbacks_ -= call->has_callback ? 1 : 0;
  call->message = {};
  room_.notify_all();
}

Peer::CallPtr Peer::take(std::uint64_t sequence) {
  const std::lock_guard lock(mutex_);
  const auto found = calls_.find(sequence);
  if (found == calls_.end()) {
    return nullptr;
  }
  CallPtr call = found->second;
  forget(call);
  vain_connections_ = 0;
  return call;
}

void Peer::give_up(PendingCall& call, Failure failure, const std::string& why) {
  const CallPtr taken = take(call.sequence);
  if (taken == nullptr) {
    return; // it has just been answered
  }
  std::shared_ptr<Connection> connection;
  FrameHeader header{.kind = FrameKind::Cancel, .sequence = taken->sequence};
  {
    const std::lock_guard lock(mutex_);
    connection = carrier();
    header.confirmed = confirmed();
  }
  taken->complete(error(*taken, failure, why));
  if (connection != nullptr) {
    if (taken->sent_on != 0) {
      connection->send(header, "", {});
    }
    connection->kick();
  }
}

// With mutex_ held: adds calls whose deadline has passed; returns the next one.
Loop::Time Peer::add_late(Loop::Time now, std::vector<CallPtr>& late) const {
  auto next = Loop::Time::max();
  for (const auto& [sequence, call] : calls_) {
    if (call->deadline.time() <= now) {
      late.push_back(call);
    } else {
      next = std::min(next, call->deadline.time());
    }
  }
  return next;
}

Loop::Time Peer::tick(Loop::Time now) {
  std::vector<CallPtr> late;
  std::shared_ptr<Connection> connection;
  auto next = Loop::Time::max();
  {
    const std::lock_guard lock(mutex_);
    connection = connection_;
    if (now < next_deadline_) {
      next = next_deadline_;
    } else {
      next = next_deadline_ = add_late(now, late);
    }
  }
  if (connection != nullptr) {
    connection->arm_if_asked();
  }
  for (const CallPtr& call : late) {
    give_up(
        *call,
        Failure::Timeout,
        str("no answer within ", call->deadline.limit_text()));
  }
  return next;
}

void Peer::on_frame(Frame frame) {
  const CallPtr call = take(frame.header.sequence);
  if (call == nullptr) {
    return; // given up, or a second answer to a call that was sent again
  }
  switch (frame.header.kind) {
    case FrameKind::Reply:
      confirm_large(*call, frame);
      call->complete(std::move(frame.message));
      return;
    case FrameKind::Thrown:
      call->complete(std::make_exception_ptr(RemoteError(
          info_.name,
          frame.method,
          frame.message.head,
          str_format(
              "[rpc.call] {} of {} (worker {}) threw {}: {}",
              call->method,
              info_.name,
              id_,
              frame.method,
              frame.message.head))));
      return;
    case FrameKind::Refused:
      call->complete(error(*call, Failure::Refused, frame.message.head));
      return;
    default:
      call->complete(error(*call, Failure::PeerLost, "an unexpected frame"));
      throw InvalidArgument(
          str("[rpc.call] a frame of kind ",
              static_cast<int>(frame.header.kind),
              ", expected an answer"));
  }
}

void Peer::confirm_large(const PendingCall& call, const Frame& frame) {
  if (!call.exactly_once || frame.message.bytes() < kConfirmedAtOnce) {
    return;
  }
  FrameHeader header{.kind = FrameKind::Confirm};
  std::shared_ptr<Connection> connection;
  {
    const std::lock_guard lock(mutex_);
    header.confirmed = confirmed();
    connection = carrier();
  }
  if (connection != nullptr) {
    connection->send(header, "", {});
  }
}

} // namespace argosy::rpc
