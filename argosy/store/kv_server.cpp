#include "argosy/store/kv_server.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "argosy/common/error.h"
#include "argosy/common/log.h"
#include "argosy/store/kv_service.h"
#include "argosy/store/socket.h"
#include "argosy/store/wire.h"

namespace argosy::store {

namespace {

using Time = KvTable::Time;

// How long the server stops accepting after accept() failed.
constexpr std::chrono::milliseconds kAcceptPause(100);

struct Connection {
  Socket socket;
  std::string in;
  std::string out;      // the reply, until it is sent completely
  std::size_t sent = 0; // bytes of `out` already sent
  bool greeted = false;
  std::optional<PendingWait> wait;

  // Serves one request at a time, so that a client that sends without reading
  // does not grow our memory.
  bool busy() const { return wait || !out.empty(); }
};

// Identifies this run of the server. A client that reconnects compares it
// (TcpClient::reconnect()) and so notices a restart, which loses all keys.
std::string new_instance() {
  std::random_device random;
  std::string bytes;
  while (bytes.size() < kInstanceBytes) {
    bytes += static_cast<char>(random() & 255);
  }
  return bytes;
}

// Returns false when the connection is broken or closed.
bool read_some(Connection& connection) {
  std::array<char, 64 << 10> chunk;
  const ssize_t got =
      ::recv(connection.socket.fd(), chunk.data(), chunk.size(), 0);
  if (got > 0) {
    connection.in.append(chunk.data(), static_cast<std::size_t>(got));
    return true;
  }
  return got < 0 && (errno == EAGAIN || errno == EINTR);
}

bool write_some(Connection& connection) {
  const std::string& out = connection.out;
  while (connection.sent < out.size()) {
    const ssize_t sent = ::send(
        connection.socket.fd(),
        out.data() + connection.sent,
        out.size() - connection.sent,
        MSG_NOSIGNAL);
    if (sent < 0) {
      return errno == EAGAIN || errno == EINTR;
    }
    connection.sent += static_cast<std::size_t>(sent);
  }
  connection.out.clear();
  connection.sent = 0;
  return true;
}

// A connection either reads a request, waits for keys, or writes a reply. It is
// polled only for that; epoll is level-triggered, so unread input of a waiting
// client would otherwise wake the server again and again. EPOLLRDHUP reports a
// client that dies while it waits.
std::uint32_t interest(const Connection& connection) {
  if (!connection.out.empty()) {
    return EPOLLOUT | EPOLLRDHUP;
  }
  return connection.wait ? EPOLLRDHUP : EPOLLIN | EPOLLRDHUP;
}

} // namespace

// One thread serves all clients, so that the table needs no lock and every
// request is atomic. After each batch of events it checks all pending waits
// again. A wait starts at the key that was absent last time (TableWait), so
// this usually costs one lookup for each waiting client.
class KvServer::Impl {
 public:
  explicit Impl(const Endpoint& address);
  ~Impl();

  std::uint16_t port() const { return port_of(listener_); }

 private:
  void run();
  void handle(const epoll_event& event);
  void accept_all();
  bool serve(Connection& connection, std::uint32_t events);
  bool greet(Connection& connection);
  bool advance(Connection& connection);
  void reply(Connection& connection, const std::string& body);
  void answer_waits();
  void watch(int fd, std::uint32_t events, int action);
  void close(int fd);
  int next_timeout();

  Socket listener_;
  Socket stop_; // an eventfd
  Socket epoll_;
  const std::string instance_ = new_instance();

  // Used only by the server thread.
  KvService service_;
  std::map<int, Connection> connections_;
  std::set<int> waiting_; // connections with a pending wait
  std::optional<Time> accept_again_;
  bool stopping_ = false;

  std::thread thread_;
};

KvServer::Impl::Impl(const Endpoint& address)
    : listener_(listen_on(address)),
      stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (stop_.fd() < 0 || epoll_.fd() < 0) {
    throw SystemError(with_errno("[store.server] cannot start"));
  }
  watch(listener_.fd(), EPOLLIN, EPOLL_CTL_ADD);
  watch(stop_.fd(), EPOLLIN, EPOLL_CTL_ADD);
  thread_ = std::thread([this] { run(); });
}

KvServer::Impl::~Impl() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(stop_.fd(), &one, sizeof(one));
  thread_.join();
}

void KvServer::Impl::watch(int fd, std::uint32_t events, int action) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  ::epoll_ctl(epoll_.fd(), action, fd, &event);
}

void KvServer::Impl::run() {
  std::array<epoll_event, 64> events;
  while (!stopping_) {
    const int count =
        ::epoll_wait(epoll_.fd(), events.data(), events.size(), next_timeout());
    for (int i = 0; i < count; ++i) {
      handle(events[i]);
    }
    answer_waits();
  }
}

void KvServer::Impl::handle(const epoll_event& event) {
  const int fd = event.data.fd;
  if (fd == stop_.fd()) {
    stopping_ = true;
    return;
  }
  if (fd == listener_.fd()) {
    accept_all();
    return;
  }
  const auto found = connections_.find(fd);
  if (found == connections_.end()) {
    return;
  }
  bool keep = false;
  try {
    keep = serve(found->second, event.events);
  } catch (const std::exception& error) {
    log::warn("[store.server] a client was dropped: ", error.what());
  }
  if (!keep) {
    close(fd);
  }
}

void KvServer::Impl::accept_all() {
  for (;;) {
    const int fd = ::accept4(
        listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) {
      Connection& connection = connections_[fd];
      connection.socket = Socket(fd);
      set_tcp_options(connection.socket);
      watch(fd, EPOLLIN | EPOLLRDHUP, EPOLL_CTL_ADD);
    } else if (errno == EAGAIN) {
      return;
    } else if (errno != EINTR && errno != ECONNABORTED) {
      // Probably out of descriptors. The listener stays readable, so stop
      // polling it for a while.
      log::warn(with_errno("[store.server] cannot accept a client"));
      watch(listener_.fd(), 0, EPOLL_CTL_MOD);
      accept_again_ = Deadline::Clock::now() + kAcceptPause;
      return;
    }
  }
}

// Returns false if the connection must be closed.
bool KvServer::Impl::serve(Connection& connection, std::uint32_t events) {
  if ((events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP)) != 0) {
    return false;
  }
  if ((events & EPOLLIN) != 0 && !read_some(connection)) {
    return false;
  }
  if ((events & EPOLLOUT) != 0 && !write_some(connection)) {
    return false;
  }
  return advance(connection);
}

// Returns false for a greeting that is not ours.
bool KvServer::Impl::greet(Connection& connection) {
  // The greeting may arrive in pieces, so a prefix of it is good so far.
  const std::size_t size = std::min(connection.in.size(), kHello.size());
  if (connection.in.compare(0, size, kHello, 0, size) != 0) {
    // A client of another version gets our greeting, so that it can report it.
    if (connection.in.starts_with(kHelloName)) {
      connection.out = kHello;
      write_some(connection);
    }
    return false;
  }
  if (size == kHello.size()) {
    connection.in.erase(0, size);
    connection.out.append(kHello).append(instance_);
    connection.greeted = true;
    return write_some(connection);
  }
  return true;
}

// Serves the requests that have arrived completely.
bool KvServer::Impl::advance(Connection& connection) {
  if (!connection.greeted && !greet(connection)) {
    return false;
  }
  std::string& in = connection.in;
  while (connection.greeted && !connection.busy() &&
         in.size() >= kLengthBytes) {
    const std::size_t size = frame_size({in.data(), kLengthBytes});
    // Such a size comes from a broken client; waiting for it would fill memory.
    if (size > kLongestFrame) {
      return false;
    }
    if (in.size() < kLengthBytes + size) {
      break;
    }
    const auto body = service_.execute(
        {in.data() + kLengthBytes, size},
        Deadline::Clock::now(),
        connection.wait);
    in.erase(0, kLengthBytes + size);
    if (body) {
      reply(connection, *body);
    }
  }
  if (connection.wait) {
    waiting_.insert(connection.socket.fd());
  }
  watch(connection.socket.fd(), interest(connection), EPOLL_CTL_MOD);
  return true;
}

void KvServer::Impl::reply(Connection& connection, const std::string& body) {
  connection.wait.reset();
  connection.out = frame_header(body.size()) + body;
  // A failure shows up again as an event of the socket.
  write_some(connection);
}

void KvServer::Impl::answer_waits() {
  const auto now = Deadline::Clock::now();
  // A copy, because advance() and close() change the set.
  const auto fds = waiting_;
  for (const int fd : fds) {
    Connection& connection = connections_.at(fd);
    const auto body = service_.answer(*connection.wait, now);
    if (body) {
      waiting_.erase(fd);
      reply(connection, *body);
      if (!advance(connection)) {
        close(fd);
      }
    }
  }
}

void KvServer::Impl::close(int fd) {
  waiting_.erase(fd);
  connections_.erase(fd);
}

// Returns the milliseconds until the next timer; also runs expired timers.
int KvServer::Impl::next_timeout() {
  const auto now = Deadline::Clock::now();
  if (accept_again_ && *accept_again_ <= now) {
    accept_again_.reset();
    watch(listener_.fd(), EPOLLIN, EPOLL_CTL_MOD);
  }
  auto next =
      service_.table().expire(now).value_or(now + std::chrono::hours(1));
  next = std::min(next, accept_again_.value_or(next));
  for (const int fd : waiting_) {
    next = std::min(next, connections_.at(fd).wait->deadline);
  }
  // Rounds up: a wake-up just before the timer would poll with 0 ms until it is
  // due.
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - now);
  return static_cast<int>(std::max<std::int64_t>(left.count(), 0));
}

KvServer::KvServer(const Endpoint& address)
    : impl_(std::make_unique<Impl>(address)) {}

KvServer::~KvServer() = default;

std::uint16_t KvServer::port() const {
  return impl_->port();
}

} // namespace argosy::store
