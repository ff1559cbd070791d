#include "argosy/rpc/server_peer.h"

#include <algorithm>

#include "argosy/common/error.h"
#include "argosy/common/fault_point.h"
#include "argosy/common/log.h"

namespace argosy::rpc {

namespace {

// Of a call without what it carries.
constexpr std::size_t kCallBytes = 512;

Answer answer_of(const std::exception_ptr& error) {
  ExceptionText text = describe(error);
  text.type.resize(std::min(text.type.size(), kLongestMethod));
  return {FrameKind::Thrown, std::move(text.type), {std::move(text.text)}};
}

// Clamped: what a peer says must not overflow our clock.
Deadline deadline_of(const FrameHeader& header) {
  constexpr std::int64_t kLongest = std::int64_t{365} * 24 * 3600 * 1000000;
  return Deadline::after(std::chrono::microseconds(
      std::clamp<std::int64_t>(header.time_left_us, 0, kLongest)));
}

// Answers one call. What it refers to belongs to the peer, which it holds.
class CallSink : public ReplySink {
 public:
  CallSink(
      std::shared_ptr<ServerPeer> peer,
      Service& service,
      const ReplyRoute& route,
      Session* session, // null unless it is exactly-once
      std::uint64_t sequence,
      std::shared_ptr<RequestBudget::Charge> charge)
      : peer_(std::move(peer)),
        service_(service),
        route_(route),
        session_(session),
        sequence_(sequence),
        charge_(std::move(charge)) {
    peer_->remember(sequence_, flag_, session_ != nullptr);
  }

  ~CallSink() override {
    if (!answered_) {
      fail(std::make_exception_ptr(
          Error("[rpc.call] the handler dropped the call without an answer")));
    }
    peer_->forget(sequence_);
    service_.end();
  }

  void reply(Message message) override {
    send({FrameKind::Reply, "", std::move(message)});
  }
  void fail(const std::exception_ptr& error) override {
    send(answer_of(error));
  }
  bool cancelled() const override { return flag_; }

 private:
  void send(Answer answer) {
    if (answered_.exchange(true)) {
      return;
    }
    charge_->change(answer.message.bytes() + kCallBytes);
    try {
      if (session_ == nullptr) {
        route_.send(sequence_, answer, std::move(charge_));
        return;
      }
      const auto kept = session_->finish(sequence_, std::move(answer));
      fault_point("rpc.finished");
      route_.send(sequence_, *kept, std::move(charge_));
    } catch (const std::exception& error) {
      // More parts than a frame may have, or no memory.
      log::warn("[rpc.reply] an answer could not be sent: ", error.what());
      route_.send(
          sequence_, answer_of(std::current_exception()), std::move(charge_));
    }
  }

  const std::shared_ptr<ServerPeer> peer_;
  Service& service_;
  const ReplyRoute& route_;
  Session* const session_;
  const std::uint64_t sequence_;
  std::shared_ptr<RequestBudget::Charge> charge_;
  ServerPeer::CancelFlag flag_{false};
  std::atomic<bool> answered_{false};
};

// `sink` is the call's: what the handler throws needs a way back when the call
// is gone.
void run_handler(const Handler& handler, IncomingCall call, ReplySink& sink) {
  try {
    handler(std::move(call));
  } catch (...) {
    sink.fail(std::current_exception());
  }
}

} // namespace

Service::Service(const EndpointOptions& options)
    : name(options.name),
      budget(std::make_shared<RequestBudget>(options.limits.request_bytes)),
      pool(options.threads) {}

void Service::add(std::string method, Handler handler, ServeOptions options) {
  ARGOSY_CHECK(
      !method.empty() && method.size() <= kLongestMethod,
      "[rpc.serve] a name of {} bytes, expected 1 to {}",
      method.size(),
      kLongestMethod);
  const std::unique_lock lock(methods_mutex_);
  const bool added = methods_
                         .emplace(
                             method,
                             std::make_shared<const Served>(
                                 Served{std::move(handler), options}))
                         .second;
  ARGOSY_CHECK(added, "[rpc.serve] {} is served already", method);
}

std::shared_ptr<const Served> Service::find(const std::string& method) const {
  const std::shared_lock lock(methods_mutex_);
  const auto found = methods_.find(method);
  return found == methods_.end() ? nullptr : found->second;
}

bool Service::begin() {
  ++calls_;
  if (draining_) {
    end();
    return false;
  }
  return true;
}

// Whoever drains has set the flag before it looks at the count.
void Service::end() {
  if (--calls_ == 0 && draining_) {
    const std::lock_guard lock(mutex_);
    none_.notify_all();
  }
}

bool Service::drain(Deadline deadline) {
  std::unique_lock lock(mutex_);
  draining_ = true;
  return none_.wait_until(
      lock, deadline.time(), [this] { return calls_ == 0; });
}

void ReplyRoute::set(std::weak_ptr<Connection> connection) {
  const std::lock_guard lock(mutex_);
  connection_ = std::move(connection);
}

void ReplyRoute::send(
    std::uint64_t sequence,
    const Answer& answer,
    std::shared_ptr<const void> charge) const {
  std::shared_ptr<Connection> connection;
  {
    const std::lock_guard lock(mutex_);
    connection = connection_.lock();
  }
  if (connection != nullptr) {
    connection->send(
        {.kind = answer.kind, .sequence = sequence},
        answer.method,
        answer.message,
        std::move(charge));
  }
}

ServerPeer::ServerPeer(
    std::shared_ptr<Service> service,
    std::shared_ptr<const CallOrigin> origin,
    std::shared_ptr<Session> session,
    std::shared_ptr<ReplyRoute> session_route,
    std::function<void(Connection&)> on_closed)
    : service_(std::move(service)),
      origin_(std::move(origin)),
      session_(std::move(session)),
      session_route_(std::move(session_route)),
      own_route_(std::make_shared<ReplyRoute>()),
      on_closed_(std::move(on_closed)) {}

void ServerPeer::start(const std::shared_ptr<Connection>& connection) {
  connection_ = connection;
  session_route_->set(connection);
  own_route_->set(connection);
  connection->start(weak_from_this());
}

bool ServerPeer::admit(const FrameHeader& header) {
  if (header.kind != FrameKind::Call) {
    return true;
  }
  charge_ =
      service_->budget->take(header.message_bytes() + kCallBytes, connection_);
  return charge_ != nullptr;
}

void ServerPeer::on_frame(Frame frame) {
  switch (frame.header.kind) {
    case FrameKind::Call:
      fault_point("rpc.serve");
      on_call(std::move(frame));
      return;
    case FrameKind::Cancel:
      session_->confirm(frame.header.confirmed);
      cancel(frame.header.sequence);
      return;
    case FrameKind::Confirm:
      session_->confirm(frame.header.confirmed);
      return;
    default:
      throw InvalidArgument(
          str("[rpc.serve] a frame of kind ",
              static_cast<int>(frame.header.kind),
              ", expected a call"));
  }
}

void ServerPeer::refuse(std::uint64_t sequence, std::string why) {
  own_route_->send(
      sequence, {FrameKind::Refused, "", {std::move(why)}}, nullptr);
}

// Whether an exactly-once call has not run before.
bool ServerPeer::may_run(const Frame& frame) {
  const FrameHeader& header = frame.header;
  const Session::Begun begun =
      session_->begin(header.sequence, header.confirmed);
  switch (begun.verdict) {
    case Session::Verdict::Run:
      return true;
    case Session::Verdict::Answered:
      own_route_->send(header.sequence, *begun.answer, nullptr);
      [[fallthrough]];
    case Session::Verdict::UnderWay:
    case Session::Verdict::Stale:
      ++service_->repeated;
      return false;
    case Session::Verdict::Full:
      refuse(
          header.sequence,
          "too many results of exactly-once calls are not confirmed");
      return false;
  }
  return false;
}

const std::shared_ptr<const Served>& ServerPeer::find(
    const std::string& method) {
  if (last_served_ == nullptr || method != last_method_) {
    last_served_ = service_->find(method);
    last_method_ = method;
  }
  return last_served_;
}

void ServerPeer::on_call(Frame frame) {
  const auto charge = std::move(charge_);
  const FrameHeader header = frame.header;
  const std::shared_ptr<const Served> served = find(frame.method);
  if (served == nullptr) {
    refuse(header.sequence, str("it serves no function ", frame.method));
    return;
  }
  const bool once = (header.flags & kExactlyOnce) != 0;
  if (once && !may_run(frame)) {
    return;
  }
  if (!service_->begin()) {
    if (once) {
      session_->forget(header.sequence);
    }
    refuse(header.sequence, "it shuts down");
    return;
  }
  ++service_->served;
  run(std::move(frame), served, charge);
}

void ServerPeer::run(
    Frame frame,
    const std::shared_ptr<const Served>& served,
    std::shared_ptr<RequestBudget::Charge> charge) {
  const FrameHeader& header = frame.header;
  const bool once = (header.flags & kExactlyOnce) != 0;
  const auto sink = std::make_shared<CallSink>(
      shared_from_this(),
      *service_,
      once ? *session_route_ : *own_route_,
      once ? session_.get() : nullptr,
      header.sequence,
      std::move(charge));
  IncomingCall call(
      origin_, std::move(frame.message), deadline_of(header), sink);
  if (served->options.inline_) {
    service_->note_fast_call();
    run_handler(served->handler, std::move(call), *sink);
    return;
  }
  // Shared, because std::function needs what can be copied.
  auto shared = std::make_shared<IncomingCall>(std::move(call));
  const auto work = [served, shared, sink] {
    if (sink->cancelled() || shared->deadline().expired()) {
      sink->fail(std::make_exception_ptr(
          Error("[rpc.call] nobody waits for the call any more")));
      return;
    }
    run_handler(served->handler, std::move(*shared), *sink);
  };
  // To wake a thread takes longer than a fast call: where such come, it waits.
  const auto connection = connection_.lock();
  if (service_->fast_calls_came() && connection != nullptr) {
    connection->defer([service = service_, work] { service->pool.run(work); });
  } else {
    service_->pool.run(work);
  }
}

void ServerPeer::cancel(std::uint64_t sequence) {
  const std::lock_guard lock(mutex_);
  const auto found = calls_.find(sequence);
  if (found != calls_.end()) {
    *found->second.cancelled = true;
  }
}

void ServerPeer::remember(
    std::uint64_t sequence, CancelFlag& cancelled, bool once) {
  const std::lock_guard lock(mutex_);
  calls_[sequence] = {&cancelled, once};
}

void ServerPeer::forget(std::uint64_t sequence) {
  const std::lock_guard lock(mutex_);
  calls_.erase(sequence);
}

// Exactly-once calls go on: their caller may come back.
void ServerPeer::on_closed(Connection& connection, const std::string& why) {
  log::debug(
      "[rpc.serve] the connection of {} has ended: {}",
      origin_->caller_name,
      why);
  {
    const std::lock_guard lock(mutex_);
    for (auto& [sequence, call] : calls_) {
      *call.cancelled = !call.once;
    }
  }
  on_closed_(connection);
}

} // namespace argosy::rpc
