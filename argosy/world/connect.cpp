#include "argosy/world/connect.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <map>
#include <mutex>

#include "argosy/common/error.h"
#include "argosy/common/net.h"
#include "argosy/store/kv_store.h"
#include "argosy/store/mem_kv.h"
#include "argosy/store/open.h"

namespace argosy {

namespace {

using StorePtr = c10::intrusive_ptr<c10d::Store>;

// Separates jobs, and attempts of one job, in a shared store.
std::string prefix_of(const LaunchInfo& info) {
  return str("argosy/", info.run_id, "/", info.restart_count);
}

// Marks a broadcast text as an error message instead of an address.
constexpr char kFailure = '!';

StorePtr serve_on_free_port(const LaunchInfo& info, std::string& address) {
  c10d::TCPStoreOptions options;
  options.port = 0;
  options.isServer = true;
  options.waitWorkers = false;
  const bool one_host = info.local_size == info.size;
  const std::string host = one_host ? "127.0.0.1" : own_address();
  // c10d's server listens on all interfaces; "localhost" is for the client in
  // this process.
  auto store = c10::make_intrusive<c10d::TCPStore>("localhost", options);
  address = Endpoint{host, store->getPort()}.text();
  return store;
}

StorePtr serve_and_tell(
    const LaunchInfo& info, const TextBroadcast& from_rank_0) {
  std::string address;
  StorePtr store;
  try {
    store = serve_on_free_port(info, address);
  } catch (const std::exception& error) {
    // The others are waiting for our text.
    from_rank_0(str(kFailure, error.what()));
    throw StoreError(
        str("[world.init] rank 0 cannot serve a store: ", error.what()));
  }
  from_rank_0(address);
  return store;
}

StorePtr learn_and_connect(
    const TextBroadcast& from_rank_0, Deadline deadline) {
  const std::string address = from_rank_0("");
  if (address.starts_with(kFailure)) {
    throw StoreError(
        str("[world.init] rank 0 cannot serve a store: ", address.substr(1)));
  }
  return store::open("tcp://" + address, {.timeout = deadline.remaining()});
}

// The stores that this process serves, by URL, until it ends. A job may make
// one world after the other at the same address. If the server ended with its
// world, a rank could reach it for the next world just before that, and c10d
// ends a process whose server resets the connection.
class ServedStores {
 public:
  static ServedStores& of_process() {
    static auto* const all = new ServedStores;
    return *all;
  }

  StorePtr serve(const std::string& url, Deadline deadline) {
    const std::lock_guard lock(mutex_);
    StorePtr& store = stores_[url];
    if (!store) {
      store =
          store::open(url, {.serve = true, .timeout = deadline.remaining()});
    }
    return store;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, StorePtr> stores_; // guarded by mutex_
};

StorePtr memory_store() {
  return c10::make_intrusive<store::KvStore>(std::make_shared<store::MemKv>());
}

} // namespace

StorePtr connect(
    const LaunchInfo& info,
    const TextBroadcast& from_rank_0,
    Deadline deadline) {
  if (info.size == 1) {
    return memory_store();
  }
  StorePtr store = info.rank == 0 ? serve_and_tell(info, from_rank_0)
                                  : learn_and_connect(from_rank_0, deadline);
  store->setTimeout(deadline.remaining());
  return c10::make_intrusive<c10d::PrefixStore>(prefix_of(info), store);
}

StorePtr connect(const LaunchInfo& info, Deadline deadline) {
  if (info.store_url.empty()) {
    ARGOSY_ASSERT(info.size == 1, "no store for {} ranks", info.size);
    return memory_store();
  }
  if (!info.serves_store) {
    return store::open(
        info.store_url,
        {.prefix = prefix_of(info), .timeout = deadline.remaining()});
  }
  return c10::make_intrusive<c10d::PrefixStore>(
      prefix_of(info),
      ServedStores::of_process().serve(info.store_url, deadline));
}

} // namespace argosy
