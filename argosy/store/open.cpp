#include "argosy/store/open.h"

#include <fcntl.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "argosy/common/error.h"
#include "argosy/store/kv_store.h"
#include "argosy/store/open_kv.h"
#include "argosy/store/socket.h"
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

StorePtr open_plain(
    const std::string& url,
    const Url& place,
    bool serve,
    milliseconds timeout) {
  const Deadline deadline = Deadline::after(timeout);
  switch (place.scheme) {
    case Scheme::File:
      return open_file(place.path);
    case Scheme::Tcp:
      return c10::make_intrusive<TcpStore>(
          place.endpoints.front(), serve, timeout);
    case Scheme::Mem:
    case Scheme::Etcd:
      break;
  }
  return c10::make_intrusive<KvStore>(open_kv(url, deadline), timeout);
}

} // namespace

StorePtr open(const std::string& url, const OpenOptions& options) {
  const Url place = parse_url(url);
  const auto timeout = place.timeout.value_or(options.timeout);
  StorePtr store = open_plain(url, place, options.serve, timeout);
  store->setTimeout(timeout);
  if (options.prefix.empty()) {
    return store;
  }
  return c10::make_intrusive<c10d::PrefixStore>(options.prefix, store);
}

} // namespace argosy::store
