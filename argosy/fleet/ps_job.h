#pragma once

#include <memory>

#include "argosy/fleet/job_role.h"
#include "argosy/fleet/ps.h"
#include "argosy/ps/service/server.h"
#include "argosy/store/credentials.h"
#include "argosy/world/init.h"

namespace argosy {
class World;
}
namespace argosy::store {
class Kv;
class KvServer;
} // namespace argosy::store

namespace torch::nn {
class Module;
}

// What fleet keeps for a process of a job with servers. Not installed.
namespace argosy::fleet {

class PsModel;
struct DistributedStrategy;

struct PsJob {
  JobRole role;
  std::chrono::milliseconds timeout;
  store::Credentials credentials;
  std::shared_ptr<store::KvServer> store_server; // where this process serves it
  std::shared_ptr<store::Kv> kv;
  std::unique_ptr<ps::Server> server;   // of a server, after init_server()
  std::shared_ptr<ps::Session> session; // of a worker, after init_worker()
  std::vector<std::weak_ptr<PsModel>> models{};
  std::int64_t num_gathered = 0;
};

struct JoinedPsJob {
  JobRole role; // with the rank that the arrival gave
  std::shared_ptr<World> world;
};

// Joins the store, and makes a world of the processes of this role. Blocks
// until they have come. The scheduler of MindSpore's jobs serves the store and
// returns, with a world of itself, when the job has ended.
JoinedPsJob join_ps_job(const JobRole& role, const InitOptions& options);

// The texts of all workers, then of all servers, through the store. All of them
// call it; blocks.
std::vector<std::string> gather_of_all(PsJob& job, const std::string& own);

// Null if the calling thread's world has no servers.
std::shared_ptr<PsJob> find_ps_job();

PsWorkerOptions ps_worker_options(const DistributedStrategy& strategy);

// What servers hold of a worker's model; connects to them if that was not done.
// Null on other processes.
std::shared_ptr<PsModel> serve_model(
    torch::nn::Module& module, const DistributedStrategy& strategy);

// Makes the tables of models that have no optimizer.
void make_ps_models();

void start_ps_worker(PsJob& job, const PsWorkerOptions& options);
void stop_ps_worker(PsJob& job);

} // namespace argosy::fleet
