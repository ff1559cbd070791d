#include "argosy/store/kv_server.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <list>
#include <map>
#include <set>
#include <thread>

#include "argosy/common/error.h"
#include "argosy/common/fault_point.h"
#include "argosy/common/log.h"
#include "argosy/store/kv_connection.h"
#include "argosy/store/peer_user.h"
#include "argosy/store/wire.h"

namespace argosy::store {

namespace {

using Time = KvTable::Time;

// How long the server stops accepting after accept() failed.
constexpr std::chrono::milliseconds kAcceptPause(100);

// How many strangers may hold descriptors: the process needs them for its own
// files, too. The system gives out the lowest number that is free, so that
// `fd`, the newest, tells about how many are in use.
std::size_t spare(int fd) {
  constexpr rlim_t kFewest = 8;
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  const auto used = static_cast<rlim_t>(fd);
  return std::max(
      kFewest, used < files.rlim_cur ? (files.rlim_cur - used) / 4 : 0);
}

// Atomic, because others read it while the server counts.
struct LiveCounts {
  std::atomic<std::uint64_t> accepted{0};
  std::atomic<std::uint64_t> proven{0};
  std::atomic<std::uint64_t> refused{0};
  std::atomic<std::uint64_t> late{0};
  std::atomic<std::uint64_t> evicted{0};
  std::atomic<std::uint64_t> stalled{0};
  std::atomic<std::uint64_t> too_large{0};
};

} // namespace

// One thread serves all clients, so that the table needs no lock and every
// request is atomic. After each batch of events it checks all pending waits
// again. A wait starts at the key that was absent last time (TableWait), so
// this usually costs one lookup for each waiting client.
class KvServer::Impl {
 public:
  Impl(const Endpoint& address, const ServerOptions& options);
  ~Impl();

  std::uint16_t port() const { return port_of(listener_); }
  ServerCounts counts() const;

 private:
  void run();
  void handle(const epoll_event& event);
  void handle(KvConnection& connection, std::uint32_t events);
  void accept_all();
  void try_admit(Socket socket);
  void admit(Socket socket);
  bool evict_oldest_greeter();
  void pause_accepting();
  bool serve(KvConnection& connection, std::uint32_t events);
  bool greet(KvConnection& connection);
  bool is_other_user(const KvConnection& connection) const;
  bool advance(KvConnection& connection);
  bool execute_arrived(KvConnection& connection);
  void set_limit(KvConnection& connection);
  void answer_waits();
  void end_late_ones(Time now);
  void drop(
      const KvConnection& connection,
      std::atomic<std::uint64_t>& count,
      std::string_view why);
  void watch(
      int fd, std::uint32_t events, int action, std::uint32_t serial = 0);
  void close(int fd);
  int next_timeout();

  const ServerOptions options_;
  const TlsContext tls_;
  Socket listener_;
  Socket stop_; // an eventfd
  Socket epoll_;
  // Identifies this run of the server. A client that reconnects compares it
  // (TcpClient::reconnect()) and so notices a restart, which loses all keys.
  const std::string instance_ = random_bytes(kInstanceBytes);
  LiveCounts counts_;

  // Used only by the server thread.
  KvService service_;
  std::map<int, KvConnection> connections_;
  std::set<int> waiting_;    // connections with a pending wait
  std::list<int> greeters_;  // connections that are not proven, oldest first
  std::set<int> limited_;    // connections with a limit
  std::size_t buffered_ = 0; // bytes that all connections hold
  std::uint32_t last_serial_ = 0;
  std::optional<Time> accept_again_;
  std::set<std::string_view> logged_; // reasons to drop a client
  bool stopping_ = false;

  std::thread thread_;
};

KvServer::Impl::Impl(const Endpoint& address, const ServerOptions& options)
    : options_(options),
      tls_(make_tls_context(options.credentials.tls)),
      listener_(listen_on(address)),
      stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      service_(
          {.bytes = options.limits.table_bytes,
           .leases = options.limits.leases}) {
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

ServerCounts KvServer::Impl::counts() const {
  return {
      .accepted = counts_.accepted,
      .proven = counts_.proven,
      .refused = counts_.refused,
      .late = counts_.late,
      .evicted = counts_.evicted,
      .stalled = counts_.stalled,
      .too_large = counts_.too_large};
}

void KvServer::Impl::watch(
    int fd, std::uint32_t events, int action, std::uint32_t serial) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = std::uint64_t{serial} << 32 | static_cast<unsigned>(fd);
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
  const int fd = static_cast<int>(event.data.u64 & 0xffffffff);
  if (fd == stop_.fd()) {
    stopping_ = true;
    return;
  }
  if (fd == listener_.fd()) {
    accept_all();
    return;
  }
  const auto found = connections_.find(fd);
  // An event of a connection that was closed in this batch, whose number
  // another one has now, is not that one's.
  if (found != connections_.end() &&
      found->second.serial() == event.data.u64 >> 32) {
    handle(found->second, event.events);
  }
}

// With events 0, the connection has only to go on with what it has read.
void KvServer::Impl::handle(KvConnection& connection, std::uint32_t events) {
  const std::size_t before = connection.buffered_bytes();
  bool keep = false;
  try {
    keep = events == 0 ? advance(connection) : serve(connection, events);
  } catch (const std::exception& error) {
    drop(connection, counts_.too_large, "an exception");
    log::debug("[store.server] ", error.what());
  }
  buffered_ += connection.buffered_bytes() - before;
  if (keep && buffered_ > options_.limits.buffer_bytes &&
      connection.buffered_bytes() > 0) {
    drop(connection, counts_.too_large, "too many bytes in all messages");
    keep = false;
  }
  if (!keep) {
    close(connection.fd());
  }
}

void KvServer::Impl::accept_all() {
  for (;;) {
    const int fd = ::accept4(
        listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) {
      try_admit(Socket(fd));
    } else if (errno == EAGAIN) {
      return;
    } else if (errno == EINTR || errno == ECONNABORTED) {
      continue;
    } else if (!await_ready(listener_.fd(), POLLIN, Deadline::after({}))) {
      // Out of descriptors, which accept() says before it looks for a client.
      return;
    } else if (!evict_oldest_greeter()) {
      pause_accepting();
      return;
    }
  }
}

void KvServer::Impl::try_admit(Socket socket) {
  try {
    admit(std::move(socket));
  } catch (const std::exception& error) {
    // No memory, for instance: the socket is closed, and its client tries
    // again.
    ++counts_.too_large;
    log::debug("[store.server] ", error.what());
  }
}

void KvServer::Impl::admit(Socket socket) {
  ++counts_.accepted;
  if (connections_.size() >= options_.limits.connections) {
    ++counts_.too_large;
    return; // closes it
  }
  const int fd = socket.fd();
  while (greeters_.size() >= std::min(options_.limits.greeters, spare(fd))) {
    evict_oldest_greeter();
  }
  set_tcp_options(socket);
  auto& connection =
      connections_
          .try_emplace(
              fd,
              Stream(std::move(socket), tls_, Stream::Side::Server),
              ++last_serial_,
              options_.credentials,
              instance_)
          .first->second;
  greeters_.push_back(fd);
  connection.limit = Deadline::Clock::now() + options_.limits.greeting;
  limited_.insert(fd);
  watch(fd, EPOLLIN | EPOLLRDHUP, EPOLL_CTL_ADD, connection.serial());
}

// Clients of the job greet within milliseconds, so the oldest is a stranger.
bool KvServer::Impl::evict_oldest_greeter() {
  if (greeters_.empty()) {
    return false;
  }
  const int fd = greeters_.front();
  drop(connections_.at(fd), counts_.evicted, "too many before it");
  close(fd);
  return true;
}

// Probably out of descriptors, which others of this process hold. The listener
// stays readable, so stop polling it for a while.
void KvServer::Impl::pause_accepting() {
  if (logged_.insert("accept").second) {
    log::warn(with_errno("[store.server] cannot accept clients for now"));
  }
  watch(listener_.fd(), 0, EPOLL_CTL_MOD);
  accept_again_ = Deadline::Clock::now() + kAcceptPause;
}

// Returns false if the connection must be closed.
bool KvServer::Impl::serve(KvConnection& connection, std::uint32_t events) {
  fault_point("store.serve");
  if ((events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP)) != 0) {
    return false;
  }
  const bool moved =
      connection.busy() ? connection.write_some() : connection.read_some();
  return moved && advance(connection);
}

// Returns false for a client that does not belong to the job.
bool KvServer::Impl::greet(KvConnection& connection) {
  if (!connection.greet()) {
    drop(connection, counts_.refused, to_string(connection.distrust()));
    return false;
  }
  if (connection.proven()) {
    if (is_other_user(connection)) {
      drop(connection, counts_.refused, "another user of this host");
      return false;
    }
    ++counts_.proven;
    greeters_.remove(connection.fd());
  }
  return true;
}

// Where nothing else is asked for, users of one host are kept apart at least.
bool KvServer::Impl::is_other_user(const KvConnection& connection) const {
  if (options_.credentials.secret || tls_ != nullptr) {
    return false;
  }
  const auto user = loopback_peer_user(connection.socket());
  return user && *user != ::geteuid() && *user != 0;
}

// Serves the requests that have arrived completely. Returns false for one that
// is too long: it comes from a broken client, and waiting for it would fill
// memory.
bool KvServer::Impl::execute_arrived(KvConnection& connection) {
  while (!connection.busy()) {
    if (connection.next_frame().value_or(0) > kLongestFrame) {
      drop(connection, counts_.too_large, "a request that is too long");
      return false;
    }
    const auto request = connection.request();
    if (!request) {
      return true;
    }
    const auto body =
        service_.execute(*request, Deadline::Clock::now(), connection.wait);
    connection.drop_request();
    if (body) {
      connection.reply(*body);
    }
  }
  return true;
}

bool KvServer::Impl::advance(KvConnection& connection) {
  if (!connection.proven() && !greet(connection)) {
    return false;
  }
  if (connection.proven()) {
    do {
      if (!execute_arrived(connection)) {
        return false;
      }
    } while (!connection.busy() && connection.has_buffered() &&
             connection.read_some());
    set_limit(connection);
  }
  if (connection.wait) {
    waiting_.insert(connection.fd());
  }
  watch(
      connection.fd(),
      connection.interest(),
      EPOLL_CTL_MOD,
      connection.serial());
  return true;
}

void KvServer::Impl::set_limit(KvConnection& connection) {
  connection.limit.reset();
  if (connection.halfway()) {
    connection.limit = Deadline::Clock::now() + options_.limits.stall;
    limited_.insert(connection.fd());
  } else {
    limited_.erase(connection.fd());
  }
}

void KvServer::Impl::answer_waits() {
  const auto now = Deadline::Clock::now();
  // A copy, because advance() and close() change the set.
  const auto fds = waiting_;
  for (const int fd : fds) {
    KvConnection& connection = connections_.at(fd);
    const auto body = service_.answer(*connection.wait, now);
    if (body) {
      waiting_.erase(fd);
      const std::size_t before = connection.buffered_bytes();
      connection.reply(*body);
      buffered_ += connection.buffered_bytes() - before;
      handle(connection, 0);
    }
  }
}

// Counts, and logs the first of each kind: a stranger must not fill the log.
void KvServer::Impl::drop(
    const KvConnection& connection,
    std::atomic<std::uint64_t>& count,
    std::string_view why) {
  ++count;
  if (logged_.insert(why).second) {
    log::warn(
        "[store.server] a connection from {} was closed: {}; further ones are "
        "only counted",
        peer_text(connection.socket()),
        why);
  }
}

void KvServer::Impl::close(int fd) {
  const auto found = connections_.find(fd);
  if (found == connections_.end()) {
    return;
  }
  waiting_.erase(fd);
  limited_.erase(fd);
  if (!found->second.proven()) {
    greeters_.remove(fd);
  }
  buffered_ -= found->second.buffered_bytes();
  connections_.erase(found);
}

void KvServer::Impl::end_late_ones(Time now) {
  // A copy, because close() changes the set.
  const auto fds = limited_;
  for (const int fd : fds) {
    const KvConnection& connection = connections_.at(fd);
    if (*connection.limit > now) {
      continue;
    }
    if (connection.proven()) {
      drop(
          connection, counts_.stalled, "it stopped in the middle of a message");
    } else {
      drop(connection, counts_.late, "no greeting in time");
    }
    close(fd);
  }
}

// Returns the milliseconds until the next timer; also runs expired timers.
int KvServer::Impl::next_timeout() {
  const auto now = Deadline::Clock::now();
  if (accept_again_ && *accept_again_ <= now) {
    accept_again_.reset();
    watch(listener_.fd(), EPOLLIN, EPOLL_CTL_MOD);
  }
  end_late_ones(now);
  auto next =
      service_.table().expire(now).value_or(now + std::chrono::hours(1));
  next = std::min(next, accept_again_.value_or(next));
  for (const int fd : waiting_) {
    next = std::min(next, connections_.at(fd).wait->deadline);
  }
  for (const int fd : limited_) {
    next = std::min(next, *connections_.at(fd).limit);
  }
  // Rounds up: a wake-up just before the timer would poll with 0 ms until it is
  // due.
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - now);
  return static_cast<int>(std::max<std::int64_t>(left.count(), 0));
}

KvServer::KvServer(const Endpoint& address, const ServerOptions& options)
    : impl_(std::make_unique<Impl>(address, options)) {}

KvServer::~KvServer() = default;

std::uint16_t KvServer::port() const {
  return impl_->port();
}

ServerCounts KvServer::counts() const {
  return impl_->counts();
}

} // namespace argosy::store
