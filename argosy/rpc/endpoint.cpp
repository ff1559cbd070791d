#include "argosy/rpc/endpoint.h"

#include <algorithm>
#include <mutex>
#include <thread>

#include "argosy/common/backoff.h"
#include "argosy/common/error.h"
#include "argosy/rpc/fan_out.h"
#include "argosy/rpc/peer.h"
#include "argosy/rpc/server.h"

namespace argosy::rpc {

class Endpoint::Impl : public std::enable_shared_from_this<Endpoint::Impl> {
 public:
  explicit Impl(EndpointOptions options);

  void start();
  void set_peers(const std::vector<PeerInfo>& peers);
  std::shared_ptr<Peer> peer(PeerId id) const;
  void shutdown(Deadline deadline);
  EndpointCounts counts() const;
  void break_connections();

  std::string address() const { return server_->address().text(); }
  Service& service() { return *service_; }

 private:
  Loop::Time tick(Loop::Time now);
  std::vector<std::shared_ptr<Peer>> peers() const;

  const EndpointOptions options_;
  std::shared_ptr<Loop> loop_;
  std::shared_ptr<BufferPool> buffers_;
  std::shared_ptr<Service> service_;
  std::shared_ptr<Server> server_;
  std::shared_ptr<Caller> caller_;
  std::once_flag shut_down_;

  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<Peer>> peers_; // guarded by mutex_
};

Endpoint::Impl::Impl(EndpointOptions options)
    : options_(std::move(options)),
      loop_(
          std::make_shared<Loop>([this](Loop::Time now) { return tick(now); })),
      buffers_(std::make_shared<BufferPool>()),
      service_(std::make_shared<Service>(options_)),
      server_(std::make_shared<Server>(options_, loop_, buffers_, service_)),
      caller_(std::make_shared<Caller>()) {
  caller_->options = options_;
  caller_->loop = loop_;
  caller_->buffers = buffers_;
  caller_->pool = &service_->pool;
  Dialer& dialer = caller_->dialer;
  dialer.own = server_->address();
  dialer.credentials = server_->credentials();
  dialer.tls = server_->tls();
  dialer.event_fd = loop_->event_fd();
}

void Endpoint::Impl::start() {
  server_->start();
  loop_->start();
}

void Endpoint::Impl::set_peers(const std::vector<PeerInfo>& peers) {
  std::vector<std::shared_ptr<Peer>> replaced;
  std::vector<std::shared_ptr<Peer>> next;
  {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < peers.size(); ++i) {
      const bool same = i < peers_.size() &&
          peers_[i]->info().address == peers[i].address &&
          peers_[i]->info().name == peers[i].name;
      next.push_back(
          same ? peers_[i]
               : std::make_shared<Peer>(
                     caller_, static_cast<PeerId>(i), peers[i]));
      if (!same && i < peers_.size()) {
        replaced.push_back(peers_[i]);
      }
    }
    for (std::size_t i = peers.size(); i < peers_.size(); ++i) {
      replaced.push_back(peers_[i]);
    }
    peers_ = std::move(next);
  }
  for (const auto& peer : replaced) {
    peer->close(Failure::PeerLost, "another worker has taken its place");
  }
}

std::vector<std::shared_ptr<Peer>> Endpoint::Impl::peers() const {
  const std::lock_guard lock(mutex_);
  return peers_;
}

std::shared_ptr<Peer> Endpoint::Impl::peer(PeerId id) const {
  const std::lock_guard lock(mutex_);
  ARGOSY_CHECK(
      id >= 0 && static_cast<std::size_t>(id) < peers_.size(),
      "[rpc.call] no worker {}, expected one of 0 to {}",
      id,
      static_cast<int>(peers_.size()) - 1);
  return peers_[static_cast<std::size_t>(id)];
}

Loop::Time Endpoint::Impl::tick(Loop::Time now) {
  auto next = server_->tick(now);
  for (const auto& peer : peers()) {
    next = std::min(next, peer->tick(now));
  }
  // Deadlines in a row cost one tick for all that pass within a millisecond.
  return std::max(next, now + std::chrono::milliseconds(1));
}

void Endpoint::Impl::shutdown(Deadline deadline) {
  std::call_once(shut_down_, [&] {
    service_->drain(deadline);
    for (Backoff backoff(std::chrono::microseconds(100));
         server_->has_unsent() && !deadline.expired();
         backoff.pause(deadline)) {
    }
    for (const auto& peer : peers()) {
      peer->close(Failure::Cancelled, "this endpoint has shut down");
    }
    server_->close_all("this endpoint has shut down");
    caller_->dialer.stopping = true;
    service_->pool.stop();
    loop_->stop();
    server_->stop_listening();
  });
}

EndpointCounts Endpoint::Impl::counts() const {
  return {
      .served = service_->served,
      .repeated = service_->repeated,
      .resent = caller_->resent,
      .connects = caller_->connects,
      .refused = server_->refused(),
      .kept_results = server_->kept_results(),
      .request_bytes = service_->budget->used()};
}

void Endpoint::Impl::break_connections() {
  for (const auto& peer : peers()) {
    peer->break_connection();
  }
  server_->close_all("broken on purpose");
}

Endpoint::Endpoint(EndpointOptions options)
    : impl_(std::make_shared<Impl>(std::move(options))) {
  impl_->start();
}

Endpoint::~Endpoint() {
  impl_->shutdown(Deadline::after({}));
}

std::string Endpoint::address() const {
  return impl_->address();
}

void Endpoint::serve(
    std::string method, Handler handler, ServeOptions options) {
  impl_->service().add(std::move(method), std::move(handler), options);
}

void Endpoint::set_peers(std::vector<PeerInfo> peers) {
  impl_->set_peers(peers);
}

Future<Message> Endpoint::call(
    PeerId peer,
    std::string_view method,
    Message message,
    const CallOptions& options) {
  return Future<Message>(
      impl_->peer(peer)->call(method, std::move(message), options));
}

Message Endpoint::call_sync(
    PeerId peer,
    std::string_view method,
    Message message,
    const CallOptions& options) {
  return Future<Message>(impl_->peer(peer)->call_and_drive(
                             method, std::move(message), options))
      .wait();
}

Future<std::vector<Result<Message>>> Endpoint::call_all(
    std::vector<Request> requests, const CallOptions& options) {
  std::vector<FanOut::Call> calls;
  for (Request& request : requests) {
    const auto peer = impl_->peer(request.peer);
    try {
      calls.push_back(
          peer->call(request.method, std::move(request.message), options));
    } catch (const RpcError&) {
      auto failed = std::make_shared<FutureState<Message>>();
      failed->complete(std::current_exception());
      calls.push_back(std::move(failed));
    }
  }
  return Future<std::vector<Result<Message>>>(
      std::make_shared<FanOut>(std::move(calls)));
}

void Endpoint::shutdown(Deadline deadline) {
  impl_->shutdown(deadline);
}

EndpointCounts Endpoint::counts() const {
  return impl_->counts();
}

void Endpoint::break_connections() {
  impl_->break_connections();
}

} // namespace argosy::rpc
