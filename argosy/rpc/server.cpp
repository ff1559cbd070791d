#include "argosy/rpc/server.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "argosy/common/error.h"
#include "argosy/common/log.h"
#include "argosy/common/text.h"

namespace argosy::rpc {

namespace {

constexpr std::chrono::seconds kGreetingTime(10);
constexpr std::size_t kMostGreeters = 256;
constexpr std::chrono::milliseconds kAcceptPause(100);

Address own_address_of(
    const EndpointOptions& options,
    const std::string& unix_name,
    const store::Socket& tcp) {
  Address address{
      .host = own_host(),
      .unix_name = unix_name,
      .rings = options.transport == Transport::SharedMemory};
  if (tcp.fd() >= 0) {
    address.tcp = {options.tcp_host, store::port_of(tcp)};
  }
  return address;
}

// What is proven here is worth nothing to another protocol of the job.
store::Credentials rpc_credentials(store::Credentials credentials) {
  if (credentials.secret) {
    credentials.secret = credentials.secret->derived("rpc");
  }
  return credentials;
}

} // namespace

class Server::Listener : public Loop::Source {
 public:
  Listener(std::weak_ptr<Server> server, int fd, bool is_unix)
      : server_(std::move(server)), fd_(fd), is_unix_(is_unix) {}

  void on_events(std::uint32_t) override {
    if (const auto server = server_.lock()) {
      server->accept_all(fd_, is_unix_);
    }
  }

 private:
  const std::weak_ptr<Server> server_;
  const int fd_;
  const bool is_unix_;
};

Server::Server(
    const EndpointOptions& options,
    std::shared_ptr<Loop> loop,
    std::shared_ptr<BufferPool> buffers,
    std::shared_ptr<Service> service)
    : options_(options),
      loop_(std::move(loop)),
      buffers_(std::move(buffers)),
      service_(std::move(service)),
      sessions_(options.limits.kept_result_bytes) {
  host_.credentials = rpc_credentials(options.credentials);
  host_.tls = store::make_tls_context(options.credentials.tls);
  host_.instance = store::random_bytes(store::kInstanceBytes);
  host_.event_fd = loop_->event_fd();
  host_.knows = [this](const Hello& hello) {
    return sessions_.knows(hello.session);
  };
  std::string unix_name;
  if (options.transport != Transport::Tcp) {
    unix_name = str("argosy-rpc-", to_hex(store::random_bytes(12)));
    unix_listener_ = listen_on_unix(unix_name);
  }
  if (!options.tcp_host.empty()) {
    tcp_listener_ = store::listen_on({options.tcp_host, options.tcp_port});
  }
  address_ = own_address_of(options, unix_name, tcp_listener_);
}

void Server::start() {
  for (const bool is_unix : {true, false}) {
    const int fd = is_unix ? unix_listener_.fd() : tcp_listener_.fd();
    if (fd >= 0) {
      listeners_[fd] = loop_->watch(
          fd,
          EPOLLIN,
          std::make_shared<Listener>(weak_from_this(), fd, is_unix));
    }
  }
}

void Server::accept_all(int listener, bool is_unix) {
  for (;;) {
    const int fd =
        ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) {
      admit(store::Socket(fd), is_unix);
    } else if (errno != EINTR && errno != ECONNABORTED) {
      // Nobody left; or out of descriptors, when a stranger has to make way.
      if (errno != EAGAIN && !greeters_.empty()) {
        greeted(*greeters_.front(), {.refusal = "no descriptors are left"});
      } else if (errno != EAGAIN) {
        set_accepting(false);
      }
      return;
    }
  }
}

// A listener stays readable while somebody waits, so stop looking for a while.
void Server::set_accepting(bool accepting) {
  for (const auto& [fd, id] : listeners_) {
    loop_->change(id, fd, accepting ? std::uint32_t{EPOLLIN} : 0u);
  }
  accept_again_.reset();
  if (!accepting) {
    accept_again_ = Deadline::Clock::now() + kAcceptPause;
    loop_->at_latest(*accept_again_);
  }
}

void Server::admit(store::Socket socket, bool is_unix) {
  {
    const std::lock_guard lock(mutex_);
    if (open_.size() >= options_.limits.connections) {
      drop("too many connections");
      return;
    }
  }
  // Those of the job greet within milliseconds, so the oldest is a stranger.
  if (greeters_.size() >= kMostGreeters) {
    greeted(*greeters_.front(), {.refusal = "too many before it"});
  }
  if (!is_unix) {
    store::set_tcp_options(socket);
  }
  try {
    const auto greeter = std::make_shared<Greeter>(
        std::move(socket),
        is_unix,
        host_,
        [weak = weak_from_this()](Greeter& done, Greeter::Outcome outcome) {
          if (const auto self = weak.lock()) {
            self->greeted(done, std::move(outcome));
          }
        });
    greeter->limit = Deadline::Clock::now() + kGreetingTime;
    greeters_.push_back(greeter);
    greeter->watch_id = loop_->watch(greeter->fd(), EPOLLIN, greeter);
    loop_->at_latest(greeter->limit);
  } catch (const std::exception& error) {
    drop(error.what());
  }
}

void Server::greeted(Greeter& greeter, Greeter::Outcome outcome) {
  const int fd =
      outcome.channel != nullptr ? outcome.channel->fd() : greeter.fd();
  loop_->forget(greeter.watch_id, fd);
  const auto found = std::find_if(
      greeters_.begin(), greeters_.end(), [&](const auto& candidate) {
        return candidate.get() == &greeter;
      });
  std::shared_ptr<Greeter> last;
  if (found != greeters_.end()) {
    last = *found;
    greeters_.erase(found);
  }
  if (!outcome.refusal.empty()) {
    drop(outcome.refusal);
  } else if (!outcome.left) {
    open(std::move(outcome));
  }
}

std::shared_ptr<ReplyRoute> Server::route_of(const std::string& session) {
  std::weak_ptr<ReplyRoute>& known = routes_[session];
  auto route = known.lock();
  if (route == nullptr) {
    route = std::make_shared<ReplyRoute>();
    known = route;
  }
  return route;
}

void Server::open(Greeter::Outcome outcome) {
  const std::string session = outcome.hello.session;
  const auto peer = std::make_shared<ServerPeer>(
      service_,
      std::make_shared<const CallOrigin>(
          CallOrigin{outcome.hello.id, outcome.hello.name}),
      sessions_.enter(session),
      route_of(session),
      [weak = weak_from_this(), session](Connection& closed) {
        if (const auto self = weak.lock()) {
          self->on_closed(closed, session);
        }
      });
  const auto connection = std::make_shared<Connection>(
      loop_,
      std::move(outcome.channel),
      outcome.ring,
      options_.limits.message_bytes,
      buffers_);
  {
    const std::lock_guard lock(mutex_);
    open_[connection.get()] = {connection, peer};
  }
  peer->start(connection);
}

void Server::on_closed(
    const Connection& connection, const std::string& session) {
  sessions_.leave(session, Deadline::Clock::now());
  Open last; // destroyed without the lock
  {
    const std::lock_guard lock(mutex_);
    const auto found = open_.find(&connection);
    if (found != open_.end()) {
      last = std::move(found->second);
      open_.erase(found);
    }
  }
  std::erase_if(
      routes_, [](const auto& entry) { return entry.second.expired(); });
}

// Counts, and logs the first of each kind: a stranger must not fill the log.
void Server::drop(const std::string& why) {
  ++refused_;
  constexpr std::size_t kMostReasons = 64;
  if (logged_.size() < kMostReasons && logged_[why]++ == 0) {
    log::warn(
        "[rpc.serve] a connection to {} was closed: {}; further ones are only "
        "counted",
        options_.name,
        why);
  }
}

Loop::Time Server::tick(Loop::Time now) {
  while (!greeters_.empty() && greeters_.front()->limit <= now) {
    greeted(*greeters_.front(), {.refusal = "no greeting in time"});
  }
  if (accept_again_ && *accept_again_ <= now) {
    set_accepting(true);
  }
  return std::min(
      accept_again_.value_or(Loop::Time::max()),
      greeters_.empty() ? Loop::Time::max() : greeters_.front()->limit);
}

void Server::close_all(const std::string& why) {
  std::vector<std::shared_ptr<Connection>> all;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, open] : open_) {
      all.push_back(open.connection);
    }
  }
  for (const auto& connection : all) {
    connection->close(why);
  }
}

void Server::stop_listening() {
  unix_listener_ = store::Socket();
  tcp_listener_ = store::Socket();
  greeters_.clear();
}

bool Server::has_unsent() const {
  const std::lock_guard lock(mutex_);
  return std::any_of(open_.begin(), open_.end(), [](const auto& entry) {
    return entry.second.connection->queued_bytes() > 0;
  });
}

} // namespace argosy::rpc
