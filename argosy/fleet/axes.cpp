#include "argosy/fleet/axes.h"

#include <algorithm>

#include "argosy/common/error.h"
#include "argosy/fleet/problems.h"
#include "argosy/fleet/strategy.h"
#include "argosy/world/world.h"

namespace argosy::fleet {

namespace {

std::vector<std::string> order_of(const HybridConfigs& configs) {
  std::vector<std::string> order = configs.order;
  // The default order has no expert axis. As the last axis it varies fastest,
  // so that the ranks of an expert group are neighbours.
  if (configs.ep_degree > 1 && std::ranges::find(order, "ep") == order.end()) {
    order.push_back("ep");
  }
  return order;
}

} // namespace

CommunicateTopology topology_of(
    const DistributedStrategy& strategy, int world_size) {
  const HybridConfigs& configs = strategy.hybrid_configs;
  HybridDegrees degrees{
      .dp = configs.dp_degree,
      .pp = configs.pp_degree,
      .sharding = configs.sharding_degree,
      .sep = configs.sep_degree,
      .mp = configs.mp_degree,
      .ep = configs.ep_degree};
  // ZeRO without a degree shards over all ranks that have different data.
  if (strategy.sharding && degrees.sharding == 1 && degrees.dp == -1) {
    const std::int64_t others =
        degrees.pp * degrees.sep * degrees.mp * degrees.ep;
    degrees.dp = 1;
    degrees.sharding = std::max<std::int64_t>(world_size / others, 1);
  }
  try {
    return hybrid_topology(degrees, world_size, order_of(configs));
  } catch (const InvalidArgument& error) {
    Problems problems(strategy.source());
    problems.add(error);
    problems.raise();
    throw;
  }
}

Axes::Axes(const DistributedStrategy& strategy)
    : hybrid(std::make_shared<HybridMesh>(
          topology_of(strategy, require_world("fleet.init")->size()))),
      world(get_group(0)),
      sharding(hybrid->group_over({"sharding"})),
      replicas(hybrid->group_over({"data", "sep", "expert"})),
      data(hybrid->group_over({"data", "sharding", "sep", "expert"})),
      expert_replicas(hybrid->group_over({"data", "sep"})),
      expert_data(hybrid->group_over({"data", "sharding", "sep"})),
      model(hybrid->group_over({"model"})),
      // Not over data and sep, whose ranks hold the same reduced gradients.
      norm(hybrid->group_over({"pipe", "sharding", "model", "expert"})) {}

} // namespace argosy::fleet
