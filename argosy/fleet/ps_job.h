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

// What fleet keeps for a process of a job with servers. Not installed.
namespace argosy::fleet {

struct PsJob {
  JobRole role;
  std::chrono::milliseconds timeout;
  store::Credentials credentials;
  std::shared_ptr<store::KvServer> store_server; // where this process serves it
  std::shared_ptr<store::Kv> kv;
  std::unique_ptr<ps::Server> server;   // of a server, after init_server()
  std::shared_ptr<ps::Session> session; // of a worker, after init_worker()
};

struct JoinedPsJob {
  JobRole role; // with the rank that the arrival gave
  std::shared_ptr<World> world;
};

// Joins the store, and makes a world of the processes of this role. Blocks
// until they have come. The scheduler of MindSpore's jobs serves the store and
// returns, with a world of itself, when the job has ended.
JoinedPsJob join_ps_job(const JobRole& role, const InitOptions& options);

// Null if the calling thread's world has no servers.
std::shared_ptr<PsJob> find_ps_job();

void start_ps_worker(PsJob& job, const PsWorkerOptions& options);
void stop_ps_worker(PsJob& job);

} // namespace argosy::fleet
