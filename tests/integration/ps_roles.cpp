// One program for all roles of a job with parameter servers. Workers train an
// unchanged model and compare it with one process; each prints a line.

#include <torch/optim/sgd.h>

#include <iostream>

#include "argosy/fleet/fleet.h"
#include "argosy/fleet/ps.h"
#include "argosy/world/init.h"
#include "tests/fleet/ps_net.h"

namespace fleet = argosy::fleet;

namespace {

std::string trained() {
  fleet::Net net;
  auto model = fleet::distributed_model(net);
  torch::optim::SGD sgd(net->parameters(), 0.5);
  auto optimizer = fleet::distributed_optimizer(sgd);
  const auto start = fleet::values_of(net);
  fleet::barrier_worker();
  for (int step = 0; step < fleet::kSteps; ++step) {
    optimizer.set_lr(fleet::rate_of(step));
    fleet::loss_of(model, fleet::worker_index(), step).backward();
    optimizer.step();
  }
  const auto end = fleet::values_of(net);
  const auto alone =
      fleet::train_alone(start, fleet::worker_num(), fleet::sgd_of_servers);
  return fleet::same_bits(end, alone) ? "as one process" : "otherwise";
}

} // namespace

int main() {
  torch::set_num_threads(1);
  auto strategy = fleet::DistributedStrategy::from_json(
      R"({"ps_configs": {"initial_range": 0.5}})");
  fleet::init(false, strategy, {.timeout = std::chrono::seconds(60)});
  if (fleet::is_server()) {
    fleet::init_server();
    fleet::run_server();
  } else if (fleet::is_worker()) {
    const std::string line = argosy::str(
        "worker ",
        fleet::worker_index(),
        "/",
        fleet::worker_num(),
        " of ",
        fleet::server_num(),
        " servers: ",
        trained(),
        '\n');
    std::cout << line << std::flush;
    fleet::stop_worker();
  }
}
