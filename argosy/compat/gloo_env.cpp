#include "argosy/compat/gloo_env.h"

#include <memory>
#include <numeric>
#include <utility>

#include "argosy/comm/group.h"
#include "argosy/comm/op.h"
#include "argosy/common/environment.h"
#include "argosy/common/error.h"
#include "argosy/common/thread_context.h"
#include "argosy/store/kv_server.h"
#include "argosy/store/kv_store.h"
#include "argosy/store/tcp_kv.h"
#include "argosy/world/init.h"
#include "argosy/world/world.h"

namespace argosy {

namespace {

// A world of its own that is not bound to the thread: current_world() stays
// what it was.
struct SideChannel {
  std::shared_ptr<World> world;
  std::unique_ptr<Group> group; // after its world: ends first
};

std::unique_ptr<SideChannel>& thread_channel() {
  return of_thread<std::unique_ptr<SideChannel>>();
}

SideChannel& require_channel(const char* op) {
  const auto& channel = thread_channel();
  ARGOSY_CHECK(
      channel != nullptr,
      "[comm.{}] there is no side channel, call gloo_init_parallel_env first",
      op);
  return *channel;
}

std::shared_ptr<World> make_world(
    int rank, int size, const Endpoint& endpoint, Deadline deadline) {
  const auto credentials = store::credentials_of(Environment::of_process());
  std::shared_ptr<store::KvServer> server;
  // Before the clients below, of which rank 0 has one too.
  if (rank == 0) {
    server = std::make_shared<store::KvServer>(
        endpoint, store::ServerOptions{.credentials = credentials});
  }
  auto kv = std::make_shared<store::TcpKv>(
      endpoint, deadline, store::TcpKvOptions{.credentials = credentials});
  LaunchInfo info;
  info.source = "gloo_init_parallel_env";
  info.rank = rank;
  info.size = size;
  return std::make_shared<World>(
      std::move(info),
      c10::make_intrusive<store::KvStore>(std::move(kv), deadline.remaining()),
      deadline.remaining(),
      std::move(server));
}

void pass_barrier(SideChannel& side) {
  side.group->issue({.kind = comm::OpKind::Barrier}, true);
}

} // namespace

void gloo_init_parallel_env(
    int rank_id, int rank_num, const std::string& server_endpoint) {
  ARGOSY_CHECK(
      rank_num >= 1 && rank_id >= 0 && rank_id < rank_num,
      "[comm.gloo_init_parallel_env] rank {} of {}",
      rank_id,
      rank_num);
  ARGOSY_CHECK(
      thread_channel() == nullptr,
      "[comm.gloo_init_parallel_env] there already is a side channel, call "
      "gloo_release first");
  const Endpoint endpoint =
      parse_endpoint(server_endpoint, "gloo_init_parallel_env");
  auto made = std::make_unique<SideChannel>();
  made->world = make_world(
      rank_id,
      rank_num,
      endpoint,
      Deadline::after(default_timeout(Environment::of_process())));
  std::vector<int> ranks(static_cast<std::size_t>(rank_num));
  std::iota(ranks.begin(), ranks.end(), 0);
  made->group = std::make_unique<Group>(
      *made->world,
      Group::Setup{
          .ranks = std::move(ranks),
          .backend = "gloo",
          .timeout = made->world->timeout()});
  // Reports a missing rank here rather than in the first gloo_barrier().
  pass_barrier(*made);
  thread_channel() = std::move(made);
}

void gloo_barrier() {
  pass_barrier(require_channel("gloo_barrier"));
}

void gloo_release() {
  SideChannel& side = require_channel("gloo_release");
  side.group.reset();
  side.world->leave(side.world->deadline());
  thread_channel().reset();
}

} // namespace argosy
