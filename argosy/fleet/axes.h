#pragma once

#include <memory>

#include "argosy/comm/ops.h"
#include "argosy/mesh/hybrid_mesh.h"

namespace argosy::fleet {

struct DistributedStrategy;

// The topology that a strategy asks for. Throws InvalidArgument as
// hybrid_topology() does.
CommunicateTopology topology_of(
    const DistributedStrategy& strategy, int world_size);

// The groups of a rank by what they are for.
struct Axes {
  HybridMeshPtr hybrid;
  GroupPtr world;
  // Ranks with the same part of the model and data of their own, whose
  // gradients are averaged: those that share its states, and those that have
  // copies. A part of a sequence counts as data.
  GroupPtr sharding;
  GroupPtr replicas;
  GroupPtr data; // both
  // Those of them that have the same experts.
  GroupPtr expert_replicas;
  GroupPtr expert_data;
  GroupPtr model; // ranks with parts of the same layers
  GroupPtr norm;  // ranks over which the parts of one model's gradients lie

  // In the calling thread's world.
  explicit Axes(const DistributedStrategy& strategy);
};

} // namespace argosy::fleet
