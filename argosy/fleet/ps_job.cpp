#include "argosy/fleet/ps_job.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <thread>

#include "argosy/comm/ops.h"
#include "argosy/common/environment.h"
#include "argosy/common/error.h"
#include "argosy/fleet/ps_model.h"
#include "argosy/fleet/ps_strategy.h"
#include "argosy/fleet/strategy.h"
#include "argosy/store/kv_server.h"
#include "argosy/store/kv_store.h"
#include "argosy/store/open_kv.h"
#include "argosy/store/url.h"
#include "argosy/world/world.h"

namespace argosy::fleet {

namespace {

// Attached to a world.
struct CurrentPsJob {
  std::shared_ptr<PsJob> job;
};

CurrentPsJob& current_of_world(World& world) {
  return *world.attached<CurrentPsJob>(
      [] { return std::make_shared<CurrentPsJob>(); });
}

std::string prefix_of(const LaunchInfo& info) {
  return str("job/", info.run_id, "/", info.restart_count, "/");
}

// The role with a place where the processes meet: the one that the environment
// names, else the first server's endpoint, where that server serves the store.
JobRole with_store(const JobRole& role) {
  LaunchInfo info = role.info();
  if (!info.store_url.empty()) {
    return role;
  }
  ARGOSY_CHECK(
      !info.server_endpoints.empty(),
      "[fleet.init] a job with {} servers has no store, expected endpoints of "
      "servers, MASTER_ADDR and MASTER_PORT, or ARGOSY_STORE",
      info.num_servers);
  info.store_url = "tcp://" + info.server_endpoints.front().text();
  info.serves_store = info.role == Role::Server && info.rank == 0;
  return {role.is_collective(), info};
}

std::shared_ptr<store::KvServer> serve_store(
    const LaunchInfo& info, const store::Credentials& credentials) {
  if (!info.serves_store || !info.store_url.starts_with("tcp://")) {
    return nullptr;
  }
  const store::Url url = store::parse_url(info.store_url);
  return std::make_shared<store::KvServer>(
      url.endpoints.front(), store::ServerOptions{.credentials = credentials});
}

// MindSpore's processes may have no number until they come.
JobRole with_rank(const JobRole& role, store::Kv& kv, Deadline deadline) {
  LaunchInfo info = role.info();
  if (!info.rank_by_arrival || info.rank >= 0) {
    return role;
  }
  info.rank = static_cast<int>(
      kv.add(prefix_of(info) + "arrived/" + to_string(info.role), 1, deadline) -
      1);
  ARGOSY_CHECK(
      info.rank < info.size,
      "[fleet.init] {} {} came to a job of {}",
      to_string(info.role),
      info.rank,
      info.size);
  return {role.is_collective(), info};
}

// Serves the store until the workers have stopped the servers and gone.
void park_scheduler(PsJob& job) {
  const LaunchInfo& info = job.role.info();
  const Deadline deadline = Deadline::after(job.timeout);
  const std::string gone = prefix_of(info) + "gone";
  const int expected = info.num_workers + info.num_servers;
  while (job.kv->add(gone, 0, deadline) < expected) {
    if (deadline.expired()) {
      throw TimeoutError(str_format(
          "[fleet.init] the job has not ended within {}",
          deadline.limit_text()));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

} // namespace

JoinedPsJob join_ps_job(const JobRole& asked, const InitOptions& options) {
  const JobRole given = with_store(asked);
  const Environment env = Environment::of_process();
  const auto timeout = options.timeout.value_or(default_timeout(env));
  const Deadline deadline = Deadline::after(timeout);
  const store::Credentials credentials = store::credentials_of(env);
  auto store_server = serve_store(given.info(), credentials);
  auto kv = store::open_kv(given.info().store_url, deadline, credentials);
  const JobRole role = with_rank(given, *kv, deadline);
  auto job = std::make_shared<PsJob>(PsJob{
      role, timeout, credentials, store_server, kv, nullptr, nullptr, {}, 0});
  const LaunchInfo& info = role.info();
  const bool is_scheduler = info.role == Role::Scheduler;
  if (is_scheduler) {
    park_scheduler(*job);
  }
  auto store = c10::make_intrusive<store::KvStore>(kv, timeout);
  auto own = c10::make_intrusive<c10d::PrefixStore>(
      prefix_of(info) + to_string(info.role), store);
  auto world = argosy::init(
      own,
      is_scheduler ? 0 : info.rank,
      is_scheduler ? 1 : info.size,
      {.timeout = timeout});
  current_of_world(*world).job = job;
  return {role, world};
}

std::vector<std::string> gather_of_all(PsJob& job, const std::string& own) {
  const LaunchInfo& info = job.role.info();
  const Deadline deadline = Deadline::after(job.timeout);
  const auto key_of = [&](std::int64_t round, Role role, int rank) {
    return str(
        prefix_of(info), "gather/", round, "/", to_string(role), "/", rank);
  };
  const std::int64_t round = job.num_gathered++;
  job.kv->set(key_of(round, info.role, info.rank), own, deadline);
  std::vector<std::string> keys;
  for (int i = 0; i < info.num_workers; ++i) {
    keys.push_back(key_of(round, Role::Worker, i));
  }
  for (int i = 0; i < info.num_servers; ++i) {
    keys.push_back(key_of(round, Role::Server, i));
  }
  job.kv->wait(keys, deadline);
  std::vector<std::string> texts;
  for (const std::string& key : keys) {
    texts.push_back(job.kv->get(key, deadline).value_or(""));
  }
  // All have begun this round, so they have read the one before.
  job.kv->erase(key_of(round - 1, info.role, info.rank), deadline);
  return texts;
}

std::shared_ptr<PsJob> find_ps_job() {
  const auto world = current_world();
  return world ? current_of_world(*world).job : nullptr;
}

namespace {

PsJob& job_of(const char* op, Role role) {
  const auto job = find_ps_job();
  ARGOSY_CHECK(job, "[{}] this job has no servers, or call init() first", op);
  ARGOSY_CHECK(
      job->role.role() == role,
      "[{}] this is a {}, expected a {}",
      op,
      to_string(job->role.role()),
      to_string(role));
  return *job; // the world keeps it
}

// The address at which other hosts reach this process; empty on one host.
std::string tcp_host_of(const LaunchInfo& info) {
  bool one_host = true;
  for (const Endpoint& endpoint : info.server_endpoints) {
    one_host = one_host && is_local_host(endpoint.host);
  }
  for (const Endpoint& endpoint : info.worker_endpoints) {
    one_host = one_host && is_local_host(endpoint.host);
  }
  return one_host || !info.current_endpoint ? "" : info.current_endpoint->host;
}

void say_gone(PsJob& job) {
  job.kv->add(
      prefix_of(job.role.info()) + "gone", 1, Deadline::after(job.timeout));
}

} // namespace

void init_server(const PsServerOptions& options) {
  PsJob& job = job_of("fleet.init_server", Role::Server);
  const LaunchInfo& info = job.role.info();
  job.server = std::make_unique<ps::Server>(ps::ServerOptions{
      .server = info.rank,
      .shape = {info.num_servers, options.regions_per_server},
      .kv = job.kv,
      .prefix = prefix_of(info) + "ps/",
      .replicated = options.replicated,
      .log = options.log,
      .load_folder = options.load_folder,
      .credentials = job.credentials,
      .tcp_host = tcp_host_of(info),
      .timeout = job.timeout});
}

void init_server(const std::string& load_folder) {
  init_server(PsServerOptions{.load_folder = load_folder});
}

void run_server() {
  PsJob& job = job_of("fleet.run_server", Role::Server);
  ARGOSY_CHECK(job.server, "[fleet.run_server] call init_server() first");
  // As long as the workers train, which may be days.
  job.server->run(Deadline::after(std::chrono::hours(24 * 365)));
  job.server.reset();
  say_gone(job);
  if (job.store_server) {
    // Others still read that the job has ended.
    const LaunchInfo& info = job.role.info();
    const Deadline deadline = Deadline::after(std::chrono::seconds(10));
    while (!deadline.expired() &&
           job.kv->add(prefix_of(info) + "gone", 0, deadline) <
               info.num_workers + info.num_servers) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
}

void start_ps_worker(PsJob& job, const PsWorkerOptions& options) {
  if (job.session) {
    return;
  }
  const LaunchInfo& info = job.role.info();
  const ps::Mode mode = options.communicator.mode;
  job.session = std::make_shared<ps::Session>(ps::SessionOptions{
      .client =
          {.worker = info.rank,
           .job =
               {.num_workers = info.num_workers,
                .sync = mode == ps::Mode::Sync,
                .geo = mode == ps::Mode::Geo},
           .shape = {info.num_servers, options.regions_per_server},
           .kv = job.kv,
           .prefix = prefix_of(info) + "ps/",
           .credentials = job.credentials,
           .tcp_host = tcp_host_of(info),
           .timeout = job.timeout},
      .communicator = options.communicator,
      .dense_pulls = options.dense_pulls});
  if (options.launch_barrier) {
    job.session->client().barrier("init_worker");
  }
}

PsWorkerOptions ps_worker_options(const DistributedStrategy& strategy) {
  const ASyncConfigs& configs = strategy.a_sync_configs;
  PsWorkerOptions options{
      .communicator = communicator_of(strategy),
      .launch_barrier = configs.launch_barrier};
  if (strategy.a_sync) {
    options.dense_pulls = {
        .every = configs.min_send_grad_num_before_recv,
        .beside = configs.independent_recv_thread};
  }
  return options;
}

std::shared_ptr<PsModel> serve_model(
    torch::nn::Module& module, const DistributedStrategy& strategy) {
  const auto job = find_ps_job();
  if (!job || !job->role.is_worker()) {
    return nullptr;
  }
  start_ps_worker(*job, ps_worker_options(strategy));
  auto model = PsModel::make(module, strategy, job->session);
  job->models.push_back(model);
  return model;
}

void make_ps_models() {
  for (const auto& each : find_ps_job()->models) {
    if (const auto model = each.lock()) {
      model->start();
    }
  }
}

void stop_ps_worker(PsJob& job) {
  if (!job.session) {
    return;
  }
  job.session->flush();
  job.session->communicator().stop();
  // Among workers: a barrier of the servers may end them while they still tell
  // others that all have come.
  argosy::barrier();
  if (job.role.is_first_worker()) {
    job.session->client().stop_servers();
  }
  job.session.reset();
  say_gone(job);
}

void init_worker(const PsWorkerOptions& options) {
  start_ps_worker(job_of("fleet.init_worker", Role::Worker), options);
}

std::shared_ptr<ps::Session> ps_session() {
  PsJob& job = job_of("fleet.ps_session", Role::Worker);
  ARGOSY_CHECK(job.session, "[fleet.ps_session] call init_worker() first");
  return job.session;
}

} // namespace argosy::fleet
