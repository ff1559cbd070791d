#pragma once

#include <memory>

#include "argosy/mesh/hybrid_mesh.h"

// HybridMesh under the names of paddle.distributed.fleet.
namespace argosy {

// The kind of parallelism by which a model is wrapped: the first of pipeline,
// tensor, segment and sharding that has several ranks, else data.
enum class ParallelMode {
  DATA_PARALLEL = 0,
  TENSOR_PARALLEL = 1,
  PIPELINE_PARALLEL = 2,
  SHARDING_PARALLEL = 3,
  SEGMENT_PARALLEL = 4,
};

const char* to_string(ParallelMode mode);

class HybridCommunicateGroup : public HybridMesh {
 public:
  using HybridMesh::HybridMesh;
  explicit HybridCommunicateGroup(const HybridMesh& mesh) : HybridMesh(mesh) {}

  ParallelMode get_parallel_mode() const;
  int get_global_rank() const { return global_rank(); }

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
  int get_rank_from_stage(int stage_id) const {
    return rank_at_stage(stage_id);
  }
  Neighbours get_p2p_groups() const { return stage_neighbours(); }

  // The ranks that hold one copy of the model: all axes except data, or except
  // sharding.
  std::shared_ptr<Group> get_check_parallel_group(bool sharding = false) const;
  std::shared_ptr<Group> get_dp_sep_parallel_group() const {
    return group_over({"data", "sep"});
  }
  std::shared_ptr<Group> get_pp_mp_parallel_group() const {
    return group_over({"pipe", "model"});
  }
};

using HybridCommunicateGroupPtr = std::shared_ptr<const HybridCommunicateGroup>;

// The current HybridMesh of the calling thread's rank. Null before
// fleet::init().
void set_hybrid_communicate_group(HybridCommunicateGroupPtr group);
HybridCommunicateGroupPtr get_hybrid_communicate_group();

namespace fleet {

// The same. Throws InvalidArgument before fleet::init().
HybridCommunicateGroupPtr get_hybrid_communicate_group();

} // namespace fleet

} // namespace argosy
