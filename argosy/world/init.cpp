#include "argosy/world/init.h"

#include <unistd.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <sstream>
#include <thread>
#include <utility>

#include "argosy/common/environment.h"
#include "argosy/common/error.h"
#include "argosy/common/log.h"
#include "argosy/common/net.h"
#include "argosy/heap/allocator.h"
#include "argosy/store/kv_store.h"
#include "argosy/store/url.h"
#include "argosy/torch_hooks/amx.h"
#include "argosy/torch_hooks/openblas.h"
#include "argosy/world/address_exchange.h"
#include "argosy/world/adopt.h"
#include "argosy/world/connect.h"
#include "argosy/world/epoch_world.h"
#include "argosy/world/local_ranks.h"
#include "argosy/world/process_identity.h"
#include "argosy/world/rendezvous.h"
#include "argosy/world/scheduler.h"
#include "argosy/world/thread_binding.h"
#include "argosy/world/world.h"
#include "argosy/world/world_secret.h"

namespace argosy {

using std::chrono::milliseconds;

namespace {

using StorePtr = c10::intrusive_ptr<c10d::Store>;

milliseconds seconds_to_ms(double seconds) {
  return milliseconds(static_cast<long long>(seconds * 1e3));
}

} // namespace

milliseconds default_timeout(const Environment& env) {
  if (const auto seconds = env.find_seconds("ARGOSY_TIMEOUT")) {
    return seconds_to_ms(*seconds);
  }
  if (const auto paddle_ms = env.find_int("PADDLE_PG_TIMEOUT", 1)) {
    return milliseconds(*paddle_ms);
  }
  // As c10d's process groups.
  return std::chrono::minutes(30);
}

namespace {

milliseconds timeout_of(const InitOptions& options) {
  const milliseconds timeout =
      options.timeout.value_or(default_timeout(Environment::of_process()));
  ARGOSY_CHECK(
      timeout > milliseconds::zero(),
      "[world.init] timeout is {} ms, expected > 0",
      timeout.count());
  return timeout;
}

// Unique among the ranks of a world, and readable in messages.
std::string own_identity() {
  std::ostringstream out;
  out << "process " << ::getpid() << " on " << host_name() << ", thread "
      << std::this_thread::get_id();
  return out.str();
}

LaunchInfo launch_environment() {
  if (const auto& bound = thread_binding().launch) {
    return *bound;
  }
  return adopt_process().info;
}

bool wants_shared_heap() {
  return Environment::of_process()
      .find_bool("ARGOSY_SHARED_HEAP")
      .value_or(true);
}

// Counts the worlds that a rank has joined in a store.
std::string worlds_key(int rank) {
  return str("worlds/", rank);
}

// The keys of the next world of a store. After destroy_process_group() a job
// may make another world, and keys of the last one would lead to groups that
// are gone. Ranks agree on the number because all join all worlds; who gave up
// before the others came has not joined.
StorePtr for_next_world(const StorePtr& store, int rank) {
  const std::int64_t before = store->add(worlds_key(rank), 0);
  if (before == 0) {
    return store;
  }
  return c10::make_intrusive<c10d::PrefixStore>(str("world/", before), store);
}

// How other ranks find out that this process has ended. Before the ranks meet:
// then all ranks find it.
void tell_process(c10d::Store& store, int rank) {
  const std::string process = own_process_identity();
  store.set(
      process_key(rank),
      std::vector<std::uint8_t>(process.begin(), process.end()));
}

std::shared_ptr<World> make_world(
    LaunchInfo info,
    const StorePtr& store,
    milliseconds timeout,
    std::shared_ptr<void> companion,
    const std::optional<store::Secret>& secret) {
  // Thread ranks see each other's tensors anyway.
  if (info.local_size > 1 && !thread_binding().launch && wants_shared_heap()) {
    share_tensor_memory();
  }
  auto world = std::make_shared<World>(
      std::move(info), store, timeout, std::move(companion));
  world->attached<WorldSecret>(
      [&] { return std::make_shared<WorldSecret>(WorldSecret{secret}); });
  bind_world(world);
  log::info("[world.init] ", world->info());
  return world;
}

// Common to all ways of joining: rendezvous, find local ranks, bind.
std::shared_ptr<World> join(
    LaunchInfo info,
    JoinedStore joined,
    milliseconds timeout,
    Deadline deadline,
    std::shared_ptr<void> companion = nullptr) {
  StorePtr store = joined.store;
  torch_hooks::install_openblas_core();
  torch_hooks::install_amx_limit();
  if (info.size > 1) {
    store->setTimeout(timeout);
    const StorePtr of_all = store;
    store = for_next_world(of_all, info.rank);
    tell_process(*store, info.rank);
    rendezvous(*store, info.rank, info.size, own_identity(), deadline);
    if (!info.knows_local) {
      find_local_ranks(*store, info, deadline);
    }
    of_all->add(worlds_key(info.rank), 1);
  }
  return make_world(
      std::move(info),
      store,
      timeout,
      companion ? std::move(companion) : std::move(joined.server),
      joined.secret);
}

// Blocks until all workers have left. The world that it returns is not bound to
// the thread, since a scheduler is not a rank.
std::shared_ptr<World> run_scheduler(
    const LaunchInfo& info, milliseconds timeout) {
  const Environment env = Environment::of_process();
  const StorePtr store = connect(info, Deadline::after(timeout)).store;
  const double silence = env.find_seconds("MS_NODE_TIMEOUT").value_or(30);
  serve_as_scheduler(
      *store,
      info.num_workers,
      Deadline::after(timeout),
      seconds_to_ms(silence));
  return std::make_shared<World>(info, store, timeout);
}

// MindSpore: workers find the scheduler's store, get a rank if they have none,
// and send heartbeats to the scheduler.
std::shared_ptr<World> join_scheduled(LaunchInfo info, milliseconds timeout) {
  const Deadline deadline = Deadline::after(timeout);
  const JoinedStore joined = connect(info, deadline);
  if (info.rank_by_arrival) {
    const Endpoint scheduler = store::parse_url(info.store_url).endpoints.at(0);
    info.rank = rank_by_arrival(
        *joined.store,
        info.size,
        address_towards(scheduler.host),
        info.node_id,
        deadline);
  }
  auto heartbeat = std::make_shared<Heartbeat>(info, info.rank, deadline);
  return join(info, joined, timeout, deadline, std::move(heartbeat));
}

// The process manager tells the ranks where rank 0 serves the store.
std::shared_ptr<World> init_by_exchange(
    const LaunchInfo& info, const InitOptions& options) {
  const Deadline deadline = Deadline::after(timeout_of(options));
  // What was exchanged may go when all ranks have met, not before.
  std::optional<ExchangedAddress> exchanged;
  return init(
      info,
      [&](const std::string& own) {
        exchanged.emplace(exchange_address(info, own, deadline));
        return exchanged->value();
      },
      options);
}

milliseconds scheduled_timeout(const InitOptions& options) {
  const auto topology =
      Environment::of_process().find_seconds("MS_TOPO_TIMEOUT");
  return !options.timeout && topology ? seconds_to_ms(*topology)
                                      : timeout_of(options);
}

void check_ranks(const LaunchInfo& info) {
  ARGOSY_CHECK(
      info.size > 0 && info.rank >= 0 && info.rank < info.size,
      "[world.init] rank {} of {}, expected 0 <= rank < size",
      info.rank,
      info.size);
}

// How long the rank that serves the store waits for others that still use it.
constexpr std::chrono::seconds kLinger(10);

} // namespace

std::shared_ptr<World> init_parallel_env(const InitOptions& options) {
  if (auto world = current_world()) {
    return world;
  }
  const milliseconds timeout = timeout_of(options);
  if (thread_binding().launch) {
    return join(
        *thread_binding().launch,
        {thread_binding().store, std::nullopt, nullptr},
        timeout,
        Deadline::after(timeout));
  }
  return init(launch_environment(), options);
}

std::shared_ptr<World> init(
    const LaunchInfo& info, const InitOptions& options) {
  if (auto world = current_world()) {
    return world;
  }
  ARGOSY_CHECK(
      info.role == Role::Worker || info.role == Role::Scheduler,
      "[world.init] this process is {} {} according to {}; only workers form a "
      "world",
      to_string(info.role),
      info.rank,
      info.source);
  if (info.role == Role::Scheduler) {
    return run_scheduler(info, scheduled_timeout(options));
  }
  if (info.source == "mindspore") {
    return join_scheduled(info, scheduled_timeout(options));
  }
  check_ranks(info);
  if (info.address_exchange != AddressExchange::None) {
    return init_by_exchange(info, options);
  }
  const milliseconds timeout = timeout_of(options);
  const Deadline deadline = Deadline::after(timeout);
  // One deadline for connecting and for the rendezvous together.
  return join(info, connect(info, deadline), timeout, deadline);
}

std::shared_ptr<World> init(
    const StorePtr& store, int rank, int size, const InitOptions& options) {
  if (auto world = current_world()) {
    return world;
  }
  ARGOSY_CHECK(store != nullptr, "[world.init] the store is null");
  LaunchInfo info;
  info.source = "explicit";
  info.rank = rank;
  info.size = size;
  // The caller gives no hosts; find_local_ranks() finds them out.
  info.knows_local = false;
  check_ranks(info);
  const milliseconds timeout = timeout_of(options);
  return join(
      info, {store, std::nullopt, nullptr}, timeout, Deadline::after(timeout));
}

std::shared_ptr<World> init(
    LaunchInfo info,
    const TextBroadcast& from_rank_0,
    const InitOptions& options) {
  if (auto world = current_world()) {
    return world;
  }
  check_ranks(info);
  const milliseconds timeout = timeout_of(options);
  const Deadline deadline = Deadline::after(timeout);
  info.serves_store = info.rank == 0;
  JoinedStore joined = connect(info, from_rank_0, deadline);
  return join(std::move(info), std::move(joined), timeout, deadline);
}

std::shared_ptr<World> make_epoch_world(
    LaunchInfo info,
    const std::shared_ptr<store::Kv>& kv,
    const std::string& prefix,
    milliseconds timeout) {
  const StorePtr store = c10::make_intrusive<c10d::PrefixStore>(
      prefix, c10::make_intrusive<store::KvStore>(kv, timeout));
  if (info.size > 1) {
    tell_process(*store, info.rank);
    if (!info.knows_local) {
      find_local_ranks(*store, info, Deadline::after(timeout));
    }
  }
  const auto secret = store::credentials_of(Environment::of_process()).secret;
  return make_world(std::move(info), store, timeout, nullptr, secret);
}

bool is_initialized() {
  return current_world() != nullptr;
}

bool is_available() {
  return true;
}

LaunchInfo launch_info() {
  const auto world = current_world();
  return world ? world->info() : launch_environment();
}

int get_rank() {
  const auto world = current_world();
  return world ? world->rank() : launch_environment().rank;
}

int get_world_size() {
  const auto world = current_world();
  return world ? world->size() : launch_environment().size;
}

void destroy_process_group() {
  if (const auto world = current_world()) {
    world->leave(Deadline::after(kLinger));
    bind_world(nullptr);
  }
}

} // namespace argosy
