#include "argosy/rpc/rpc.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <algorithm>
#include <mutex>
#include <numeric>
#include <optional>

#include "argosy/comm/backend/signed_store.h"
#include "argosy/comm/backend/store_gather_strings.h"
#include "argosy/comm/message/listen_address.h"
#include "argosy/common/backoff.h"
#include "argosy/common/environment.h"
#include "argosy/common/error.h"
#include "argosy/common/text.h"
#include "argosy/rpc/address.h"
#include "argosy/world/init.h"
#include "argosy/world/process_identity.h"
#include "argosy/world/world.h"
#include "argosy/world/world_secret.h"

namespace argosy::rpc {

namespace {

constexpr std::chrono::seconds kDefaultTimeout(500);

// What a rank keeps for RPC, attached to its world.
struct Worker {
  struct Function {
    std::string name;
    Handler handler;
    ServeOptions options;
  };

  std::mutex mutex;
  // Guarded by mutex.
  std::vector<Function> functions;
  int generation = 0; // how often init_rpc() has been called
  std::vector<WorkerInfo> infos;
  std::shared_ptr<Endpoint> endpoint; // null before init_rpc()
};

std::shared_ptr<Worker> worker_of(World& world) {
  return world.attached<Worker>([] { return std::make_shared<Worker>(); });
}

// The worker of the calling thread, which must be one.
struct Current {
  explicit Current(const char* op)
      : world(require_world(op)), worker(worker_of(*world)) {
    const std::lock_guard lock(worker->mutex);
    ARGOSY_CHECK(
        worker->endpoint != nullptr,
        "{} this rank is no worker, expected init_rpc() before",
        op);
    endpoint = worker->endpoint;
  }

  PeerId find(const std::string& name) const {
    const std::lock_guard lock(worker->mutex);
    for (const WorkerInfo& info : worker->infos) {
      if (info.name == name) {
        return info.rank;
      }
    }
    std::vector<std::string> names;
    for (const WorkerInfo& info : worker->infos) {
      names.push_back(info.name);
    }
    throw InvalidArgument(str_format(
        "[rpc.worker] no worker {}, expected one of {}",
        name,
        join(names, ", ")));
  }

  const std::shared_ptr<World> world;
  const std::shared_ptr<Worker> worker;
  std::shared_ptr<Endpoint> endpoint;
};

// A handler acts as its rank. The world outlives it: the endpoint is attached
// to the world and ends with it.
void serve_as_rank(
    Endpoint& endpoint, World& world, const Worker::Function& function) {
  endpoint.serve(
      function.name,
      [world = std::shared_ptr<World>(std::shared_ptr<void>(), &world),
       handler = function.handler](IncomingCall call) {
        const WorldScope scope(world);
        handler(std::move(call));
      },
      function.options);
}

comm::GatherStrings gather_among_ranks(World& world, const std::string& name) {
  comm::Members members{
      .group = "rpc",
      .rank = world.rank(),
      .global_ranks = {},
      .store = world.store(),
      .deadline = world.deadline()};
  members.global_ranks.resize(static_cast<std::size_t>(world.size()));
  std::iota(members.global_ranks.begin(), members.global_ranks.end(), 0);
  if (const auto secret = secret_of(world)) {
    members.key = secret->derived(
        str("argosy rpc ",
            world.info().run_id,
            "/",
            world.info().restart_count,
            "/",
            name));
  }
  return comm::gather_strings_through(
      comm::signed_store(members), name, world.rank(), world.size());
}

EndpointOptions endpoint_options(
    World& world,
    const std::string& name,
    const RpcOptions& options,
    std::string tcp_host) {
  store::Credentials credentials{.secret = secret_of(world)};
  credentials.tls = store::credentials_of(Environment::of_process()).tls;
  return {
      .name = name,
      .id = world.rank(),
      .credentials = std::move(credentials),
      .tcp_host = std::move(tcp_host),
      .transport = options.transport,
      .threads = options.threads,
      .limits = options.limits};
}

WorkerInfo info_of(int rank, const std::string& text) {
  const std::size_t end = text.find('\n');
  ARGOSY_ASSERT(end != std::string::npos, text);
  WorkerInfo info{
      .name = text.substr(0, end),
      .rank = rank,
      .ip = "127.0.0.1",
      .address = text.substr(end + 1)};
  const Address address = parse_address(info.address);
  if (!address.tcp.host.empty()) {
    info.ip = address.tcp.host;
    info.port = address.tcp.port;
  }
  return info;
}

std::vector<WorkerInfo> infos_of(const std::vector<std::string>& texts) {
  std::vector<WorkerInfo> infos;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    infos.push_back(info_of(static_cast<int>(rank), texts[rank]));
    for (std::size_t other = 0; other < rank; ++other) {
      ARGOSY_CHECK(
          infos[other].name != infos[rank].name,
          "[rpc.init] ranks {} and {} have the name {}, expected a name for "
          "each",
          other,
          rank,
          infos[rank].name);
    }
  }
  return infos;
}

// A rank is done when it calls shutdown(), and has left when it has seen that
// all are done.
std::string phase_key(int generation, const char* phase, int rank) {
  return str("rpc/", generation, "/", phase, "/", rank);
}

bool has_left(World& world, int rank) {
  if (!world.store()->check({process_key(rank)})) {
    return false;
  }
  const auto identity = world.store()->get(process_key(rank));
  return ended_process({identity.begin(), identity.end()}).has_value();
}

// Returns the ranks that did not come to a phase until the deadline. Those that
// have ended never will, and are not waited for.
std::vector<int> wait_for_all(
    World& world, int generation, const char* phase, Deadline deadline) {
  const auto store = world.store();
  std::vector<int> missing(static_cast<std::size_t>(world.size()));
  std::iota(missing.begin(), missing.end(), 0);
  Backoff backoff(
      std::chrono::microseconds(200), std::chrono::milliseconds(20));
  for (int turn = 1;; ++turn) {
    std::erase_if(missing, [&](int rank) {
      return store->check({phase_key(generation, phase, rank)}) ||
          (turn % 8 == 0 && has_left(world, rank));
    });
    if (missing.empty() || deadline.expired()) {
      return missing;
    }
    backoff.pause(deadline);
  }
}

CallOptions options_of(const CallSettings& settings) {
  const auto limit = settings.timeout.count() > 0
      ? std::chrono::nanoseconds(settings.timeout)
      : std::chrono::nanoseconds(kDefaultTimeout);
  return {
      .deadline = Deadline::after(limit),
      .exactly_once = settings.exactly_once};
}

} // namespace

void init_rpc(const std::string& name, const RpcOptions& options) {
  ARGOSY_CHECK(
      !name.empty() && name.size() <= 256 &&
          name.find('\n') == std::string::npos,
      "[rpc.init] the name \"{}\", expected 1 to 256 characters in one line",
      name);
  const std::shared_ptr<World> world =
      current_world() != nullptr ? current_world() : init_parallel_env();
  const auto worker = worker_of(*world);
  const std::lock_guard lock(worker->mutex);
  ARGOSY_CHECK(
      worker->endpoint == nullptr,
      "[rpc.init] called twice, expected shutdown() in between");
  const auto gather =
      gather_among_ranks(*world, str("rpc/", ++worker->generation));
  const bool one_host = world->local_size() == world->size();
  const bool tcp = options.transport == Transport::Tcp || !one_host;
  auto endpoint = std::make_shared<Endpoint>(endpoint_options(
      *world, name, options, tcp ? comm::message::listen_address(gather) : ""));
  for (const Worker::Function& function : worker->functions) {
    serve_as_rank(*endpoint, *world, function);
  }
  auto infos = infos_of(gather(str(name, "\n", endpoint->address())));
  std::vector<PeerInfo> peers;
  for (const WorkerInfo& info : infos) {
    peers.push_back({info.name, info.address});
  }
  endpoint->set_peers(std::move(peers));
  worker->infos = std::move(infos);
  worker->endpoint = std::move(endpoint);
}

void shutdown(std::chrono::milliseconds timeout) {
  const Current current("[rpc.shutdown]");
  const Deadline deadline = timeout.count() > 0 ? Deadline::after(timeout)
                                                : current.world->deadline();
  int generation = 0;
  {
    const std::lock_guard lock(current.worker->mutex);
    generation = current.worker->generation;
  }
  World& world = *current.world;
  const auto come_to = [&](const char* phase) {
    world.store()->set(phase_key(generation, phase, world.rank()), {'1'});
  };
  come_to("done");
  const std::vector<int> missing =
      wait_for_all(world, generation, "done", deadline);
  current.endpoint->shutdown(deadline);
  if (missing.empty()) {
    come_to("left");
    // Rank 0 may serve the store that the others look into, so it leaves last.
    if (world.rank() == 0) {
      wait_for_all(world, generation, "left", deadline);
    }
  }
  {
    const std::lock_guard lock(current.worker->mutex);
    current.worker->endpoint = nullptr;
    current.worker->infos.clear();
  }
  if (!missing.empty()) {
    throw TimeoutError(str_format(
        "[rpc.shutdown] ranks {} did not call shutdown() within {}",
        ranges_text(missing),
        deadline.limit_text()));
  }
}

WorkerInfo get_worker_info(const std::string& name) {
  const Current current("[rpc.worker]");
  return get_all_worker_infos()[static_cast<std::size_t>(current.find(name))];
}

std::vector<WorkerInfo> get_all_worker_infos() {
  const Current current("[rpc.worker]");
  const std::lock_guard lock(current.worker->mutex);
  return current.worker->infos;
}

WorkerInfo get_current_worker_info() {
  const Current current("[rpc.worker]");
  const std::lock_guard lock(current.worker->mutex);
  return current.worker->infos[static_cast<std::size_t>(current.world->rank())];
}

namespace detail {

void add_function(
    const std::string& name, Handler handler, ServeOptions options) {
  const auto world = require_world("[rpc.register]");
  const auto worker = worker_of(*world);
  const std::lock_guard lock(worker->mutex);
  const bool taken = std::any_of(
      worker->functions.begin(),
      worker->functions.end(),
      [&](const auto& function) { return function.name == name; });
  ARGOSY_CHECK(
      !taken && !name.empty(),
      "[rpc.register] the name \"{}\" is empty or taken, expected a new one",
      name);
  worker->functions.push_back({name, std::move(handler), options});
  if (worker->endpoint != nullptr) {
    serve_as_rank(*worker->endpoint, *world, worker->functions.back());
  }
}

Message call_sync(const To& to, const std::string& function, Message message) {
  const Current current("[rpc.call]");
  return current.endpoint->call_sync(
      current.find(to.name),
      function,
      std::move(message),
      options_of(to.settings));
}

Future<Message> call_async(
    const To& to, const std::string& function, Message message) {
  const Current current("[rpc.call]");
  return current.endpoint->call(
      current.find(to.name),
      function,
      std::move(message),
      options_of(to.settings));
}

Future<std::vector<Result<Message>>> call_all(
    const std::vector<std::string>& workers,
    CallSettings settings,
    const std::string& function,
    const Message& message) {
  const Current current("[rpc.call]");
  std::vector<Request> requests;
  for (const std::string& worker : workers) {
    requests.push_back({current.find(worker), function, message});
  }
  return current.endpoint->call_all(std::move(requests), options_of(settings));
}

} // namespace detail

} // namespace argosy::rpc
