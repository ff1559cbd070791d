#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "argosy/mesh/rank_mesh.h"
#include "argosy/mesh/topology.h"

namespace argosy {

// Determines how a model is wrapped: the first of pipeline, tensor, segment and
// sharding that has several ranks, else data.
enum class ParallelMode {
  DATA_PARALLEL = 0,
  TENSOR_PARALLEL = 1,
  PIPELINE_PARALLEL = 2,
  SHARDING_PARALLEL = 3,
  SEGMENT_PARALLEL = 4,
};

const char* to_string(ParallelMode mode);

// The number of ranks on each axis, by short name.
struct HybridDegrees {
  std::int64_t dp = 1; // -1: world size divided by the other degrees
  std::int64_t pp = 1;
  std::int64_t sharding = 1;
  std::int64_t sep = 1;
  std::int64_t mp = 1;
  std::int64_t ep = 1;

  std::int64_t of(const std::string& name) const;
};

// Returns the topology with the given axes, the first varying slowest. Names
// are dp, pp, sharding, sep, mp, ep. An axis that `order` omits must have
// degree 1, and comes last. Throws InvalidArgument, with the calculation, when
// the degrees do not multiply to `world_size`.
CommunicateTopology hybrid_topology(
    const HybridDegrees& degrees,
    int world_size,
    const std::vector<std::string>& order = {
        "dp", "pp", "sharding", "sep", "mp"});

// A topology seen from one rank: its coordinates, and the groups that it
// communicates in, created on first use. A missing axis has one rank.
class HybridCommunicateGroup {
 public:
  // Uses the calling thread's world. Throws InvalidArgument when the topology
  // has another size.
  explicit HybridCommunicateGroup(CommunicateTopology topology);

  const CommunicateTopology& topology() const { return topology_; }
  ParallelMode get_parallel_mode() const;
  int get_global_rank() const { return mesh_->rank(); }

  // Axes are data, pipe, sharding, sep, model, expert. Groups are made on first
  // use; other ranks need not ask for theirs.
  int rank_on(const std::string& axis) const;
  int size_on(const std::string& axis) const;
  std::shared_ptr<Group> group_over(const std::vector<std::string>& axes) const;
  // The first global rank of the group over `axis`.
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
  // Returns the global rank at another stage with otherwise equal coordinates.
  int get_rank_from_stage(int stage_id) const;

  // The next and previous stage in the ring, as global ranks, and two-rank
  // groups with each; null if there is one stage.
  struct P2pGroups {
    int next_rank = 0;
    int prev_rank = 0;
    std::shared_ptr<Group> next;
    std::shared_ptr<Group> prev;
  };
  P2pGroups get_p2p_groups() const;

  // The ranks that hold one copy of the model: all axes except data or, if
  // `sharding`, except sharding.
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

// The default topology of the calling thread's rank, used by functions that are
// given none. fleet::init() sets it; null before.
void set_hybrid_communicate_group(
    std::shared_ptr<const HybridCommunicateGroup> group);
std::shared_ptr<const HybridCommunicateGroup> get_hybrid_communicate_group();

// Returns `group`; if it is null, the group over `axis` of the default
// topology, or all ranks if there is none.
std::shared_ptr<Group> group_or_axis(
    const std::shared_ptr<Group>& group, const char* axis);

} // namespace argosy
