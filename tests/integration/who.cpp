// A rank that meets the others, whatever launched it, and says who it is. With
// --stay it then waits for what never comes, with --die it kills itself. Built
// twice: with ARGOSY_WHO_MPI it joins MPI_COMM_WORLD instead of looking at the
// launch environment.

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <csignal>
#include <iostream>
#include <string>

#include "argosy/argosy.h"
#include "argosy/common/environment.h"

#ifdef ARGOSY_WHO_MPI
#include "argosy/world/mpi.h"
#endif

namespace {

using namespace argosy;

// 1 + 2 + ... + size, if all ranks are really there.
long long sum_of_all(World& world) {
  c10d::Store& store = *world.store();
  const std::string own = std::to_string(world.rank() + 1);
  store.set(str("number/", world.rank()), {own.begin(), own.end()});
  long long sum = 0;
  for (int rank = 0; rank < world.size(); ++rank) {
    const auto value = store.get(str("number/", rank));
    sum += std::stoll(std::string(value.begin(), value.end()));
  }
  return sum;
}

void run(const std::string& end) {
  const bool given = Environment::of_process().has("ARGOSY_TIMEOUT");
  InitOptions options;
  if (!given) {
    options.timeout = std::chrono::seconds(30);
  }
#ifdef ARGOSY_WHO_MPI
  MPI_Init(nullptr, nullptr);
  const auto world = init_from_mpi(MPI_COMM_WORLD, options);
#else
  const auto world = init_parallel_env(options);
#endif
  if (world->role() == Role::Scheduler) {
    std::cout << "scheduler done\n";
    return;
  }
  const std::string line = str_format(
      "rank {}/{} local {}/{} node {}/{} sum {} by {}\n",
      world->rank(),
      world->size(),
      world->local_rank(),
      world->local_size(),
      world->info().node_rank,
      world->info().num_nodes,
      sum_of_all(*world),
      world->info().source);
  std::cout << line << std::flush;
  if (end == "--die") {
    std::raise(SIGKILL);
  }
  if (end == "--stay") {
    world->store()->wait({"never"}, std::chrono::seconds(20));
  }
  destroy_process_group();
#ifdef ARGOSY_WHO_MPI
  MPI_Finalize();
#endif
}

} // namespace

int main(int argc, char** argv) {
  const std::string end = argc > 1 ? argv[1] : "";
  return argosy::record([&] { run(end); });
}
