#pragma once

#include "argosy/comm/ops.h"
#include "argosy/mesh/hybrid_mesh.h"

namespace argosy::fleet {

struct DistributedStrategy;

// Returns the topology that the strategy's hybrid_configs describe for a world
// of `world_size` ranks. Throws InvalidArgument as hybrid_topology() does.
CommunicateTopology topology_of(
    const DistributedStrategy& strategy, int world_size);

// This rank's communication groups, named by what they are used for.
struct Axes {
  HybridMeshPtr hybrid;
  GroupPtr world;
  // Groups of ranks that hold the same part of the model and train on different
  // data. Gradients are averaged over `data`, which is the product of
  // `sharding` (ranks that shard the training state) and `replicas` (ranks that
  // copy it). Ranks that hold different parts of a sequence count as having
  // different data.
  GroupPtr sharding;
  GroupPtr replicas;
  GroupPtr data; // sharding x replicas
  // The same, restricted to ranks that hold the same experts.
  GroupPtr expert_replicas;
  GroupPtr expert_data;
  GroupPtr model; // tensor parallel: ranks with shards of the same layers
  GroupPtr norm;  // ranks that together hold all gradients of one model

  // Creates the groups in the calling thread's world. All ranks of the world
  // call it with the same strategy.
  explicit Axes(const DistributedStrategy& strategy);
};

} // namespace argosy::fleet
