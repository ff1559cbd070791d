#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "argosy/dtensor/layout/reshard_plan.h"
#include "argosy/dtensor/tensor/decision_cache.h"
#include "argosy/dtensor/tensor/op_names.h"
#include "argosy/dtensor/tensor/random_state.h"
#include "argosy/dtensor/tensor/value_checks.h"

namespace argosy {
class RankMesh;
}

namespace argosy::dtensor {

class GatherAhead;
struct Parts;

// What a rank keeps for the tensors of one mesh: its groups, the plans of
// resharding, and the decisions about ops. DTensors hold it, so that backward
// works on threads that belong to no world. Thread-safe.
class MeshState {
 public:
  MeshState(
      std::shared_ptr<RankMesh> ranks,
      std::shared_ptr<RandomState> random,
      std::shared_ptr<OpNames> gathered,
      std::shared_ptr<ValueChecks> checks);

  RankMesh& ranks() { return *ranks_; }
  const ProcessMesh& mesh() const { return mesh_; }
  bool is_member() const { return is_member_; }
  DecisionCache& decisions() { return decisions_; }
  RandomState& random() { return *random_; }
  OpNames& gathered() { return *gathered_; }
  ValueChecks& checks() { return *checks_; }

  // What gathers parameters before ops need them, as long as the caller keeps
  // it.
  void add_gather_ahead(const std::shared_ptr<GatherAhead>& ahead);
  bool gathers_ahead() const {
    return gathers_ahead_.load(std::memory_order_relaxed);
  }
  // What it has gathered for an input; undefined for others.
  at::Tensor find_gathered(const Parts& input, const Placements& to);

  // The part of this rank after a change of placements on this mesh. All ranks
  // of the mesh must call it; blocks. May share the memory of `local`.
  at::Tensor reshard(
      const at::Tensor& local,
      at::IntArrayRef global,
      const Placements& from,
      const Placements& to);

  // The same to any mesh.
  at::Tensor reshard(
      const at::Tensor& local,
      at::IntArrayRef global,
      const Placements& from,
      MeshState& other,
      const Placements& to);

  // This rank's part, and its shape; of no elements outside of the mesh.
  Box local_box(at::IntArrayRef global, const Placements& placements) const;
  Shape local_shape(at::IntArrayRef global, const Placements& placements) const;

 private:
  struct PlanKey {
    Shape global;
    std::int64_t item_bytes;
    std::uint64_t from;
    std::uint64_t to;

    auto operator<=>(const PlanKey&) const = default;
  };

  const std::shared_ptr<RankMesh> ranks_;
  const std::shared_ptr<RandomState> random_;
  const std::shared_ptr<OpNames> gathered_;
  const std::shared_ptr<ValueChecks> checks_;
  const ProcessMesh& mesh_;
  const bool is_member_;
  DecisionCache decisions_;

  std::mutex mutex_;
  std::map<PlanKey, std::shared_ptr<const ReshardPlan>> plans_; // by mutex_
  std::vector<std::weak_ptr<GatherAhead>> ahead_;               // by mutex_
  std::atomic<bool> gathers_ahead_ = false;
};

// The calling thread's state for a mesh; the same for equal meshes.
std::shared_ptr<MeshState> mesh_state(const ProcessMesh& mesh);

// The calling thread's random numbers, which all its meshes share.
std::shared_ptr<RandomState> random_state();

// The ops that the calling thread's rank ran on gathered inputs, for want of a
// rule.
std::shared_ptr<OpNames> gathered_ops();

} // namespace argosy::dtensor
