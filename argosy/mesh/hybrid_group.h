#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "argosy/mesh/rank_mesh.h"
#include "argosy/mesh/topology.h"

namespace argosy {

// What decides about how a model is wrapped: the first of pipeline, tensor,
// segment, sharding that has several ranks, else data.
enum class ParallelMode {
  DATA_PARALLEL = 0,
  TENSOR_PARALLEL = 1,
  PIPELINE_PARALLEL = 2,
  SHARDING_PARALLEL = 3,
  SEGMENT_PARALLEL = 4,
};

const char* to_string(ParallelMode mode);

// How many ranks an axis has, by its short name.
struct HybridDegrees {
  std::int64_t dp = 1; // -1: what the others leave
  std::int64_t pp = 1;
  std::int64_t sharding = 1;
  std::int64_t sep = 1;
  std::int64_t mp = 1;
  std::int64_t ep = 1;

  std::int64_t of(const std::string& name) const;
};

// The topology with these axes, the first the slowest: the names are dp, pp,
// sharding, sep, mp, ep. An axis that `order` leaves out must be of one rank,
// and comes last. Throws InvalidArgument, with the arithmetic, when the degrees
// do not multiply to the size of the world.
CommunicateTopology hybrid_topology(
    const HybridDegrees& degrees,
    int world_size,
    const std::vector<std::string>& order = {
        "dp", "pp", "sharding", "sep", "mp"});

// A topology as one rank sees it: where the rank stands on each axis, and the
// groups that it communicates in, made when first asked for. An axis that is
// not there has one rank.
class HybridCommunicateGroup {
 public:
  // In the calling thread's world. Throws InvalidArgument when the topology has
  // another size.
  explicit HybridCommunicateGroup(CommunicateTopology topology);

  const CommunicateTopology& topology() const { return topology_; }
  ParallelMode get_parallel_mode() const;
  int get_global_rank() const { return mesh_->rank(); }

  // Of any axes, by name: data, pipe, sharding, sep, model, expert.
  int rank_on(const std::string& axis) const;
  int size_on(const std::string& axis) const;
  std::shared_ptr<Group> group_over(const std::vector<std::string>& axes) const;
  // The first global rank of it.
  int src_rank_on(const std::string& axis) const;

  int get_data_parallel_rank() const { return rank_on("data"); }
  int get_data_parallel_world_size() const { return size_on("data"); }
  std::shared_ptr<Group> get_data_parallel_group() const {
    return group_over({"data"});
  }
  int get_data_parallel_group_src_rank() const { return src_rank_on("data"); }

  int get_model_parallel_rank() const { return rank_on("model"); }
  int get_model_parallel_world_size() const { return size_on("model"); }
  std::shared_ptr<Group> get_model_parallel_group() const {
    return group_over({"model"});
  }
  int get_model_parallel_group_src_rank() const { return src_rank_on("model"); }

  int get_sharding_parallel_rank() const { return rank_on("sharding"); }
  int get_sharding_parallel_world_size() const { return size_on("sharding"); }
  std::shared_ptr<Group> get_sharding_parallel_group() const {
    return group_over({"sharding"});
  }
  int get_sharding_parallel_group_src_rank() const {
    return src_rank_on("sharding");
  }

  int get_sep_parallel_rank() const { return rank_on("sep"); }
  int get_sep_parallel_world_size() const { return size_on("sep"); }
  std::shared_ptr<Group> get_sep_parallel_group() const {
    return group_over({"sep"});
  }
  int get_sep_parallel_group_src_rank() const { return src_rank_on("sep"); }

  int get_expert_parallel_rank() const { return rank_on("expert"); }
  int get_expert_parallel_world_size() const { return size_on("expert"); }
  std::shared_ptr<Group> get_expert_parallel_group() const {
    return group_over({"expert"});
  }
  int get_expert_parallel_group_src_rank() const {
    return src_rank_on("expert");
  }

  int get_pipe_parallel_rank() const { return rank_on("pipe"); }
  int get_pipe_parallel_world_size() const { return size_on("pipe"); }
  std::shared_ptr<Group> get_pipe_parallel_group() const {
    return group_over({"pipe"});
  }
  int get_pipe_parallel_group_src_rank() const { return src_rank_on("pipe"); }
  int get_stage_id() const { return rank_on("pipe"); }
  bool is_first_stage() const { return get_stage_id() == 0; }
  bool is_last_stage() const {
    return get_stage_id() == get_pipe_parallel_world_size() - 1;
  }
  // The global rank that stands at another stage, all else equal.
  int get_rank_from_stage(int stage_id) const;

  // The neighbours in the ring of stages, as global ranks, and the groups of
  // two with each; null with one stage.
  struct P2pGroups {
    int next_rank = 0;
    int prev_rank = 0;
    std::shared_ptr<Group> next;
    std::shared_ptr<Group> prev;
  };
  P2pGroups get_p2p_groups() const;

  // The ranks that hold one copy of the model: all axes but data, or but
  // sharding.
  std::shared_ptr<Group> get_check_parallel_group(bool sharding = false) const;
  std::shared_ptr<Group> get_dp_sep_parallel_group() const {
    return group_over({"data", "sep"});
  }
  std::shared_ptr<Group> get_pp_mp_parallel_group() const {
    return group_over({"pipe", "model"});
  }

 private:
  CommunicateTopology topology_;
  std::shared_ptr<RankMesh> mesh_;
};

// The one that functions take when they are given none, for the calling
// thread's rank: fleet::init() sets it. Null before.
void set_hybrid_communicate_group(
    std::shared_ptr<const HybridCommunicateGroup> group);
std::shared_ptr<const HybridCommunicateGroup> get_hybrid_communicate_group();

// `group`; when it is null, that of an axis of the one above, or of all ranks
// when there is none.
std::shared_ptr<Group> group_or_axis(
    const std::shared_ptr<Group>& group, const char* axis);

} // namespace argosy
