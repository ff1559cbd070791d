#include "argosy/world/connect.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <cstdlib>
#include <map>
#include <mutex>

#include "argosy/common/environment.h"
#include "argosy/common/error.h"
#include "argosy/common/log.h"
#include "argosy/common/net.h"
#include "argosy/store/kv_server.h"
#include "argosy/store/kv_store.h"
#include "argosy/store/mem_kv.h"
#include "argosy/store/open.h"
#include "argosy/store/tcp_kv.h"
#include "argosy/store/url.h"
#include "argosy/world/invitation.h"

namespace argosy {

namespace {

constexpr const char* kRankZero = "rank 0";

using store::Credentials;
using StorePtr = c10::intrusive_ptr<c10d::Store>;

// Separates jobs, and attempts of one job, in a shared store.
std::string prefix_of(const LaunchInfo& info) {
  return str("argosy/", info.run_id, "/", info.restart_count);
}

bool is_one_host(const LaunchInfo& info) {
  return info.knows_local && info.local_size == info.size;
}

// The stores that this process serves, by URL, until it ends. A job may make
// one world after the other at the same address. If the server ended with its
// world, a rank could reach it for the next world just before that.
class ServedStores {
 public:
  static ServedStores& of_process() {
    static auto* const all = new ServedStores;
    return *all;
  }

  StorePtr serve(const std::string& url, const store::OpenOptions& options) {
    const std::lock_guard lock(mutex_);
    StorePtr& store = stores_[url];
    if (!store) {
      store = store::open(url, options);
      end_before_the_process();
    }
    return store;
  }

 private:
  // A server that still greets strangers while exit() takes OpenSSL apart would
  // crash the process. Handlers run in reverse order: this one before
  // OpenSSL's, because our own connection has been greeted.
  void end_before_the_process() {
    if (!ends_) {
      std::atexit([] { of_process().end(); });
      ends_ = true;
    }
  }

  void end() {
    const std::lock_guard lock(mutex_);
    stores_.clear();
  }

  std::mutex mutex_;
  std::map<std::string, StorePtr> stores_; // guarded by mutex_
  bool ends_ = false;                      // guarded by mutex_
};

StorePtr memory_store() {
  return c10::make_intrusive<store::KvStore>(std::make_shared<store::MemKv>());
}

StorePtr with_prefix(const LaunchInfo& info, const StorePtr& store) {
  return c10::make_intrusive<c10d::PrefixStore>(prefix_of(info), store);
}

JoinedStore serve_and_tell(
    const LaunchInfo& info,
    const TextBroadcast& from_rank_0,
    Credentials credentials,
    Deadline deadline) {
  world::Invitation invitation;
  if (!credentials.secret) {
    invitation.secret = store::Secret::random();
    credentials.secret = invitation.secret;
  }
  const std::string host = is_one_host(info) ? "127.0.0.1" : own_address();
  std::shared_ptr<store::KvServer> server;
  try {
    server = std::make_shared<store::KvServer>(
        Endpoint{host, 0}, store::ServerOptions{.credentials = credentials});
    invitation.address = Endpoint{host, server->port()}.text();
  } catch (const std::exception& error) {
    // The others are waiting for our text.
    from_rank_0(to_text(world::Invitation{.failure = error.what()}));
    throw StoreError(
        str("[world.init] rank 0 cannot serve a store: ", error.what()));
  }
  from_rank_0(to_text(invitation));
  const auto store = store::open(
      str("tcp://", invitation.address),
      {.timeout = deadline.remaining(),
       .credentials = credentials,
       .owner = kRankZero});
  return {store, credentials.secret, server};
}

JoinedStore learn_and_connect(
    const TextBroadcast& from_rank_0,
    Credentials credentials,
    Deadline deadline) {
  const auto invitation = world::parse_invitation(from_rank_0(""));
  if (!invitation.failure.empty()) {
    throw StoreError(
        str("[world.init] rank 0 cannot serve a store: ", invitation.failure));
  }
  if (invitation.secret) {
    credentials.secret = invitation.secret;
  }
  ARGOSY_CHECK(
      credentials.secret,
      "[world.init] rank 0 has ARGOSY_SECRET or ARGOSY_SECRET_FILE, and this "
      "rank has none, expected the same on all ranks");
  return {
      store::open(
          str("tcp://", invitation.address),
          {.timeout = deadline.remaining(),
           .credentials = credentials,
           .owner = kRankZero}),
      credentials.secret,
      nullptr};
}

// All ranks on one host meet on its loopback interface, whatever name they
// were given, so that nobody else can reach the store.
std::string store_url(const LaunchInfo& info, const store::Url& place) {
  const bool tcp = place.scheme == store::Scheme::Tcp;
  if (!tcp || place.served_elsewhere || !is_one_host(info) ||
      !is_local_host(place.endpoints.front().host)) {
    return info.store_url;
  }
  std::string url = str("tcp://127.0.0.1:", place.endpoints.front().port);
  if (place.timeout) {
    url += str("?timeout=", place.timeout->count(), "ms");
  }
  return url;
}

// Else the launcher, a scheduler or a server serves it.
bool is_of_rank_0(const LaunchInfo& info, const store::Url& place) {
  return !place.served_elsewhere && info.role == Role::Worker &&
      info.num_servers == 0 && !info.rank_by_arrival;
}

// A job on several hosts without a secret works, as it does with torch.
void warn_of_open_store(
    const LaunchInfo& info,
    const store::Url& place,
    const Credentials& credentials) {
  const bool ours = place.scheme == store::Scheme::Tcp && info.serves_store;
  if (ours && !is_one_host(info) && !credentials.secret &&
      !credentials.tls.on()) {
    log::warn(
        "[world.init] the ranks of this job share no secret: whoever reaches "
        "{} can join it. Give all of them the same ARGOSY_SECRET_FILE",
        info.store_url);
  }
}

} // namespace

JoinedStore connect(
    const LaunchInfo& info,
    const TextBroadcast& from_rank_0,
    Deadline deadline) {
  if (info.size == 1) {
    return {memory_store(), std::nullopt, nullptr};
  }
  const auto credentials = store::credentials_of(Environment::of_process());
  JoinedStore joined = info.rank == 0
      ? serve_and_tell(info, from_rank_0, credentials, deadline)
      : learn_and_connect(from_rank_0, credentials, deadline);
  joined.store->setTimeout(deadline.remaining());
  joined.store = with_prefix(info, joined.store);
  return joined;
}

JoinedStore connect(const LaunchInfo& info, Deadline deadline) {
  if (info.store_url.empty()) {
    ARGOSY_ASSERT(info.size == 1, "no store for {} ranks", info.size);
    return {memory_store(), std::nullopt, nullptr};
  }
  const auto credentials = store::credentials_of(Environment::of_process());
  const store::Url place = store::parse_url(info.store_url);
  warn_of_open_store(info, place, credentials);
  const std::string url = store_url(info, place);
  const store::OpenOptions options{
      .serve = info.serves_store,
      .timeout = deadline.remaining(),
      .credentials = credentials,
      .owner = is_of_rank_0(info, place) ? kRankZero : ""};
  const StorePtr store = info.serves_store
      ? ServedStores::of_process().serve(url, options)
      : store::open(url, options);
  return {with_prefix(info, store), credentials.secret, nullptr};
}

} // namespace argosy
