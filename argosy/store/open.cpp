#include "argosy/store/open.h"

#include <fcntl.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "argosy/common/error.h"
#include "argosy/store/kv_server.h"
#include "argosy/store/kv_store.h"
#include "argosy/store/open_kv.h"
#include "argosy/store/socket.h"
#include "argosy/store/tcp_kv.h"
#include "argosy/store/tcp_store.h"
#include "argosy/store/url.h"

namespace argosy::store {

namespace {

using StorePtr = c10::intrusive_ptr<c10d::Store>;
using std::chrono::milliseconds;

// Creates the file first: c10d would retry a missing file until the time-out.
// This also reports problems with the path at once.
StorePtr open_file(const std::string& path) {
  const Socket file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (file.fd() < 0) {
    throw StoreError(with_errno(str("[store.open] cannot open file ", path)));
  }
  return c10::make_intrusive<c10d::FileStore>(path, -1);
}

// A server, and its client in the same process.
class ServedKv {
 public:
  ServedKv(
      const Endpoint& place, const TcpKvOptions& options, Deadline deadline)
      : server_(
            {listen_host(place.host, deadline), place.port},
            {.credentials = options.credentials}),
        kv_(place, deadline, options) {}

  Kv* kv() { return &kv_; }

 private:
  KvServer server_;
  TcpKv kv_; // after its server
};

// A rank that finds its server gone must soon say so; the server of a job does
// not come back.
constexpr milliseconds kReconnect(500);

std::shared_ptr<Kv> open_tcp(
    const Endpoint& place, const OpenOptions& options, Deadline deadline) {
  const TcpKvOptions client{
      .reconnect = kReconnect,
      .credentials = options.credentials,
      .owner = options.owner};
  if (!options.serve) {
    return std::make_shared<TcpKv>(place, deadline, client);
  }
  // The server ends with the last user of its store.
  const auto served = std::make_shared<ServedKv>(place, client, deadline);
  return {served, served->kv()};
}

StorePtr open_plain(
    const std::string& url,
    const Url& place,
    const OpenOptions& options,
    milliseconds timeout) {
  const Deadline deadline = Deadline::after(timeout);
  std::shared_ptr<Kv> kv;
  switch (place.scheme) {
    case Scheme::File:
      return open_file(place.path);
    case Scheme::C10d:
      return c10::make_intrusive<TcpStore>(
          place.endpoints.front(), options.serve, timeout);
    case Scheme::Tcp:
      kv = open_tcp(place.endpoints.front(), options, deadline);
      break;
    case Scheme::Mem:
    case Scheme::Etcd:
      kv = open_kv(url, deadline, options.credentials);
      break;
  }
  return c10::make_intrusive<KvStore>(std::move(kv), timeout);
}

} // namespace

StorePtr open(const std::string& url, const OpenOptions& options) {
  const Url place = parse_url(url);
  const auto timeout = place.timeout.value_or(options.timeout);
  StorePtr store = open_plain(url, place, options, timeout);
  store->setTimeout(timeout);
  if (options.prefix.empty()) {
    return store;
  }
  return c10::make_intrusive<c10d::PrefixStore>(options.prefix, store);
}

} // namespace argosy::store
