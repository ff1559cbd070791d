#include "argosy/store/tcp_store.h"

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "argosy/common/error.h"
#include "argosy/store/error_text.h"
#include "argosy/store/resolve.h"
#include "argosy/store/socket.h"

namespace argosy::store {

namespace {

using Bytes = std::vector<std::uint8_t>;
using StorePtr = c10::intrusive_ptr<c10d::Store>;
using std::chrono::milliseconds;

// How long after its deadline a wait may look for the missing keys.
constexpr milliseconds kReconnectGrace(100);

// The first line; the rest is torch's stack trace.
std::string first_line(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find('\n'));
}

StorePtr construct(const Endpoint& address, bool serve, Deadline deadline) {
  c10d::TCPStoreOptions options;
  options.port = address.port;
  options.isServer = serve;
  options.waitWorkers = false;
  // c10d counts whole seconds when it connects; a fraction would become 0.
  options.timeout = std::chrono::ceil<std::chrono::seconds>(
      deadline.remaining(std::chrono::hours(24)));
  try {
    return c10::make_intrusive<c10d::TCPStore>(address.host, options);
  } catch (const std::exception& error) {
    throw StoreError(
        str("[store.open] cannot ",
            serve ? "serve on " : "connect to ",
            address.text(),
            ": ",
            first_line(error)));
  }
}

// c10d has no handshake, and only wait() has a time limit. So the first call is
// a wait, which any c10d server answers at once.
void greet(c10d::Store& store, const Endpoint& address, Deadline deadline) {
  try {
    store.wait({}, deadline.remaining(std::chrono::hours(24)));
  } catch (const std::exception& error) {
    if (deadline.expired()) {
      throw TimeoutError(str_format(
          "[store.open] {} accepted the connection but did not answer within "
          "{}, expected a c10d::TCPStore",
          address.text(),
          deadline.limit_text()));
    }
    throw StoreError(str_format(
        "[store.open] {} is not a c10d::TCPStore: {}",
        address.text(),
        first_line(error)));
  }
}

// The time-out of a wait stays with the connection and limits later answers.
void limit_answers(c10d::Store& store, milliseconds timeout) {
  store.wait({}, timeout);
}

StorePtr host(const Endpoint& address, Deadline deadline) {
  resolve(address, deadline);
  StorePtr server = construct(address, true, deadline);
  greet(*server, address, deadline);
  return server;
}

// Connects a plain socket first, because c10d's own retries print warnings and
// have coarse limits.
StorePtr connect(
    const Endpoint& address, Deadline deadline, milliseconds timeout) {
  connect_to(address, deadline, "a c10d::TCPStore");
  StorePtr client = construct(address, false, deadline);
  greet(*client, address, deadline);
  try {
    limit_answers(*client, timeout);
  } catch (const std::exception& error) {
    throw StoreError(str_format(
        "[store.open] the server at {} has ended: {}",
        address.text(),
        first_line(error)));
  }
  return client;
}

// 24 days is the largest number of whole days whose milliseconds fit into an
// int.
milliseconds limited(milliseconds timeout) {
  return timeout == c10d::Store::kNoTimeout ? std::chrono::hours(24 * 24)
                                            : timeout;
}

} // namespace

TcpStore::TcpStore(const Endpoint& address, bool serve, milliseconds timeout)
    : c10d::Store(timeout), address_(address) {
  const Deadline deadline = Deadline::after(limited(timeout));
  if (serve) {
    server_ = host(address, deadline);
  }
  client(deadline);
}

TcpStore::~TcpStore() = default;

StorePtr TcpStore::client(Deadline deadline) {
  const std::lock_guard lock(mutex_);
  if (client_ == nullptr) {
    client_ = connect(address_, deadline, limited(timeout_));
  }
  return client_;
}

// After a failure, a late answer may still arrive on the connection, and the
// next call would take it for its own. The next call connects anew. The server
// that this rank may host is a separate object and stays.
void TcpStore::drop() {
  const std::lock_guard lock(mutex_);
  client_.reset();
}

template <typename Call>
auto TcpStore::run(const char* what, Call call) {
  const StorePtr store = client(Deadline::after(limited(timeout_)));
  try {
    return call(*store);
  } catch (const std::exception& error) {
    throw_failed(what, error);
  }
}

void TcpStore::throw_failed(const char* what, const std::exception& error) {
  drop();
  throw StoreError(str_format(
      "[store.{}] c10d::TCPStore at {} failed: {}",
      what,
      address_.text(),
      first_line(error)));
}

void TcpStore::set(const std::string& key, const Bytes& value) {
  run("set", [&](c10d::Store& store) { store.set(key, value); });
}

Bytes TcpStore::compareSet(
    const std::string& key, const Bytes& expected, const Bytes& desired) {
  return run("compare_set", [&](c10d::Store& store) {
    return store.compareSet(key, expected, desired);
  });
}

// Waits first, because wait() has a time limit and names the missing key.
Bytes TcpStore::get(const std::string& key) {
  wait({key});
  return run("get", [&](c10d::Store& store) { return store.get(key); });
}

std::int64_t TcpStore::add(const std::string& key, std::int64_t value) {
  return run("add", [&](c10d::Store& store) { return store.add(key, value); });
}

bool TcpStore::deleteKey(const std::string& key) {
  return run("erase", [&](c10d::Store& store) { return store.deleteKey(key); });
}

bool TcpStore::check(const std::vector<std::string>& keys) {
  return run("check", [&](c10d::Store& store) { return store.check(keys); });
}

std::int64_t TcpStore::getNumKeys() {
  return run("count", [](c10d::Store& store) { return store.getNumKeys(); });
}

void TcpStore::wait(const std::vector<std::string>& keys) {
  wait(keys, timeout_);
}

void TcpStore::wait(
    const std::vector<std::string>& keys, const milliseconds& timeout) {
  const Deadline deadline = Deadline::after(limited(timeout));
  const StorePtr store = client(deadline);
  try {
    store->wait(keys, deadline.remaining(limited(timeout)));
    limit_answers(*store, limited(timeout_));
  } catch (const std::exception& error) {
    // c10d rounds, and may give up slightly early.
    if (deadline.remaining() > milliseconds(10)) {
      throw_failed("wait", error);
    }
    drop();
    throw TimeoutError(missing_text(missing(keys), deadline));
  }
}

// Returns all of `keys` if the store does not answer soon.
std::vector<std::string> TcpStore::missing(
    const std::vector<std::string>& keys) {
  std::vector<std::string> absent;
  try {
    const StorePtr store = client(Deadline::after(kReconnectGrace));
    for (const std::string& key : keys) {
      if (!store->check({key})) {
        absent.push_back(key);
      }
    }
    return absent;
  } catch (const std::exception&) {
    drop();
    return keys;
  }
}

} // namespace argosy::store
