#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "argosy/mesh/rank_mesh.h"
#include "argosy/mesh/topology.h"
#include "argosy/world/data_ranks.h"

namespace argosy {

// How many ranks each axis has, by its short name.
struct HybridDegrees {
  std::int64_t dp = 1; // -1: world size divided by the other degrees
  std::int64_t pp = 1;
  std::int64_t sharding = 1;
  std::int64_t sep = 1;
  std::int64_t mp = 1;
  std::int64_t ep = 1;

  std::int64_t of(const std::string& name) const;
};

// The topology with the axes of `order` (of dp, pp, sharding, sep, mp, ep). The
// last axis varies fastest, so its ranks are neighbours. An axis that `order`
// does not name must have one rank. Throws InvalidArgument, with the
// arithmetic, unless the degrees multiply to `world_size`.
CommunicateTopology hybrid_topology(
    const HybridDegrees& degrees,
    int world_size,
    const std::vector<std::string>& order = {
        "dp", "pp", "sharding", "sep", "mp"});

// A topology as one rank sees it: the rank's coordinate on each axis, and the
// groups that it communicates in, which are created when first asked for. Axes
// are named data, pipe, sharding, sep, model and expert; an axis that the
// topology does not have counts as one of one rank.
class HybridMesh {
 public:
  // In the calling thread's world. Throws InvalidArgument when the topology has
  // another size.
  explicit HybridMesh(CommunicateTopology topology);
  virtual ~HybridMesh() = default;

  const CommunicateTopology& topology() const { return topology_; }
  int global_rank() const { return mesh_->rank(); }

  int rank_on(const std::string& axis) const;
  int size_on(const std::string& axis) const;
  // The first global rank of this rank's group on the axis.
  int src_rank_on(const std::string& axis) const;

  // Which part of the data this rank reads: the ranks of the data, sharding and
  // expert axes have their own samples, those of the other axes share theirs.
  DataRanks data_ranks() const;

  // The ranks that differ from this one on these axes alone. Groups are created
  // on first use; other ranks need not ask for theirs.
  std::shared_ptr<Group> group_over(const std::vector<std::string>& axes) const;

  // The ranks of this rank's pipeline stage as a mesh of DTensors, with the
  // short names of the axes (dp, sharding, sep, mp, ep) in the order of the
  // topology. Axes of one rank are left out, except dp and mp.
  ProcessMesh mesh() const;

  // The global rank at another pipeline stage, with all other coordinates
  // equal.
  int rank_at_stage(int stage) const;

  // The neighbours in the ring of stages, as global ranks, and the groups of
  // two with each; null with one stage.
  struct Neighbours {
    int next_rank = 0;
    int prev_rank = 0;
    std::shared_ptr<Group> next;
    std::shared_ptr<Group> prev;
  };
  Neighbours stage_neighbours() const;

 private:
  CommunicateTopology topology_;
  std::shared_ptr<RankMesh> mesh_;
};

using HybridMeshPtr = std::shared_ptr<const HybridMesh>;

// The mesh that functions of the calling thread's rank use when they are given
// none; fleet::init() sets it. Null before. Samplers follow its data_ranks().
//
// The first call throws InvalidArgument when something took a default that the
// mesh contradicts: a sampler other data ranks, or a layer all ranks for an
// axis that has fewer.
void set_current_hybrid_mesh(HybridMeshPtr mesh);
HybridMeshPtr current_hybrid_mesh();

// `group`, or if that is null the group of an axis of the current mesh. Without
// a mesh it is the group of all ranks, for programs that divide only one way
// and do without fleet; set_current_hybrid_mesh() then checks that it agrees.
std::shared_ptr<Group> group_or_axis(
    const std::shared_ptr<Group>& group, const char* axis);

} // namespace argosy
