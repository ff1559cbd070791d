#include "argosy/world/connect.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "argosy/common/backoff.h"
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

// A store that this process serves. Not held by c10's weak pointers, which
// would keep the server from closing its port.
using Served = std::shared_ptr<const StorePtr>;

// The stores that ranks of this process have reached or serve, by URL. The
// server of a world that has ended lives on while somebody holds the world, and
// the address is that of the next world, too.
class KnownStores {
 public:
  static KnownStores& of_process() {
    static auto* const all = new KnownStores; // used until the very end
    return *all;
  }

  Served find(const std::string& url) {
    const std::lock_guard lock(mutex_);
    const auto found = stores_.find(url);
    return found == stores_.end() ? nullptr : found->second.lock();
  }

  // Whether there was one, whose server may still be about to end.
  bool knows(const std::string& url) {
    const std::lock_guard lock(mutex_);
    return stores_.count(url) > 0;
  }

  void add_reached(const std::string& url) {
    const std::lock_guard lock(mutex_);
    stores_.try_emplace(url); // a thread rank of this process may serve it
  }

  void add_served(const std::string& url, const Served& store) {
    const std::lock_guard lock(mutex_);
    stores_[url] = store;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<const StorePtr>> stores_; // of mutex_
};

class ServedPrefixStore final : public c10d::PrefixStore {
 public:
  ServedPrefixStore(const std::string& prefix, Served served)
      : c10d::PrefixStore(prefix, *served), served_(std::move(served)) {}

 private:
  const Served served_;
};

// Calls `open`; where this process was before, for a while until it succeeds. A
// world is taken apart by the last who holds it, which may be a thread that
// just ends: until then the port is in use, and others reach a server that is
// about to end.
template <typename Open>
auto patiently(const std::string& url, Deadline deadline, const Open& open) {
  const Deadline patience = Deadline::after(std::chrono::seconds(10));
  Backoff backoff(std::chrono::milliseconds(1), std::chrono::milliseconds(50));
  while (true) {
    try {
      return open();
    } catch (const StoreError&) {
      if (!KnownStores::of_process().knows(url) || patience.expired() ||
          deadline.expired()) {
        throw;
      }
    }
    backoff.pause(deadline);
  }
}

Served serve(const std::string& url, Deadline deadline) {
  if (Served served = KnownStores::of_process().find(url)) {
    return served;
  }
  auto served = std::make_shared<const StorePtr>(
      store::open(url, {.serve = true, .timeout = deadline.remaining()}));
  KnownStores::of_process().add_served(url, served);
  return served;
}

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
  const std::string& url = info.store_url;
  if (info.serves_store) {
    return c10::make_intrusive<ServedPrefixStore>(
        prefix_of(info),
        patiently(url, deadline, [&] { return serve(url, deadline); }));
  }
  return patiently(url, deadline, [&] {
    return store::open(
        url, {.prefix = prefix_of(info), .timeout = deadline.remaining()});
  });
}

bool was_reached(const LaunchInfo& info) {
  return KnownStores::of_process().knows(info.store_url);
}

void note_reached(const LaunchInfo& info) {
  KnownStores::of_process().add_reached(info.store_url);
}

} // namespace argosy
