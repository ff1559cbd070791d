#include "argosy/store/open.h"

#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <filesystem>

#include "argosy/common/error.h"
#include "argosy/store/kv_store.h"
#include "argosy/store/open_kv.h"
#include "argosy/store/socket.h"
#include "argosy/store/url.h"

namespace argosy::store {

namespace {

using StorePtr = c10::intrusive_ptr<c10d::Store>;
using std::chrono::milliseconds;

// The first line: the rest is torch's stack.
std::string first_line(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find('\n'));
}

StorePtr open_file(const std::string& path) {
  const auto folder = std::filesystem::path(path).parent_path();
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) {
    throw StoreError(
        str("[store.open] ", path, ": there is no folder ", folder.string()));
  }
  auto store = c10::make_intrusive<c10d::FileStore>(path, -1);
  try {
    store->check({"argosy"});
  } catch (const std::exception& error) {
    throw StoreError(str("[store.open] ", path, ": ", first_line(error)));
  }
  return store;
}

StorePtr construct_tcp(
    const Endpoint& address, bool serve, milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = address.port;
  options.isServer = serve;
  options.waitWorkers = false;
  options.timeout = timeout;
  return c10::make_intrusive<c10d::TCPStore>(address.host, options);
}

// c10d shakes no hands, and its calls but wait() have no time limit. So the
// first call is a wait, which any c10d server answers at once.
void greet(c10d::Store& store, const Endpoint& address, Deadline deadline) {
  try {
    store.wait({}, deadline.remaining(std::chrono::hours(1)));
  } catch (const std::exception& error) {
    if (deadline.expired()) {
      throw TimeoutError(
          str("[store.open] ",
              address.text(),
              " accepted the connection but did not answer within ",
              deadline.limit_text(),
              ", expected a c10d::TCPStore"));
    }
    throw StoreError(
        str("[store.open] ",
            address.text(),
            " is not a c10d::TCPStore: ",
            first_line(error)));
  }
}

StorePtr open_tcp(const Endpoint& address, bool serve, Deadline deadline) {
  // c10d's own retries print warnings and overrun short limits.
  if (!serve) {
    connect_to(address, deadline, "a c10d::TCPStore");
  }
  StorePtr store;
  try {
    const auto left = deadline.remaining(std::chrono::hours(24));
    store = construct_tcp(address, serve, left);
  } catch (const std::exception& error) {
    throw StoreError(
        str("[store.open] cannot ",
            serve ? "serve on " : "connect to ",
            address.text(),
            ": ",
            first_line(error)));
  }
  greet(*store, address, deadline);
  return store;
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
      return open_tcp(place.endpoints.front(), serve, deadline);
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
