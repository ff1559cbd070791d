#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "argosy/fleet/axes.h"
#include "argosy/fleet/job_role.h"
#include "argosy/fleet/model.h"
#include "argosy/fleet/optimizer.h"
#include "argosy/fleet/strategy.h"
#include "argosy/fleet/util.h"
#include "argosy/pipeline/stage_model.h"
#include "argosy/world/init.h"

namespace argosy::pipeline {
class PipelineLayer;
}

// The facade of Argosy, named as paddle.distributed.fleet. A strategy selects
// the kinds of parallelism and optimizations; fleet applies them to a model and
// an optimizer:
//
//   fleet::DistributedStrategy strategy;
//   strategy.gradient_merge = true;
//   strategy.gradient_merge_configs.k_steps = 4;
//   fleet::init(true, strategy);
//   auto model = fleet::distributed_model(net);
//   auto optimizer = fleet::distributed_optimizer(sgd);
namespace argosy::fleet {

class PipelineModel; // argosy/fleet/pipeline_model.h

// One rank's role, strategy and groups. A world has at most one current Fleet;
// the free functions below act on the one of the calling thread's world. Not
// thread-safe.
class Fleet {
 public:
  // Creates groups in the calling thread's world: all ranks call it alike.
  // Users call init() instead.
  Fleet(JobRole role, const DistributedStrategy& strategy);

  const JobRole& role() const { return role_; }
  const DistributedStrategy& strategy() const { return strategy_; }
  const UtilBase& util() const { return util_; }

  // Wraps a module for training as the strategy says. All ranks call it alike,
  // with modules of equal structure. The wrapper shares `module`;
  // sync_batch_norm and amp_configs.use_pure_bf16 modify it in place. Throws
  // InvalidArgument when the strategy has pipeline stages.
  //
  // On a worker of a job with servers, connects to them if init_worker() was
  // not called, and puts parameters there as ps_configs say (fleet/ps.h).
  template <typename Module>
  DistributedModel<Module> distributed_model(Module module) {
    check_has_no_stages();
    ModelSetup setup = prepare(training::as_module(module));
    return DistributedModel<Module>(std::move(module), setup);
  }

  // The same for a pipeline. The loss functions are those of `layers`.
  PipelineModel distributed_model(const pipeline::PipelineLayer& layers);
  // The same for a stage that was cut from a whole model (pipeline::CutStage).
  PipelineModel distributed_model(
      const std::shared_ptr<pipeline::StageModel>& stage,
      std::vector<pipeline::LossFn> loss_fns);

  // Wraps an optimizer; `optimizer` must outlive the result. With lars, lamb or
  // dgc, another optimizer with the same parameters steps instead.
  //
  // A `strategy` given here replaces the one of init(). Throws InvalidArgument
  // when a model was already made with a different strategy, or when the
  // optimizer does not suit the strategy. All ranks call it alike.
  DistributedOptimizer distributed_optimizer(
      torch::optim::Optimizer& optimizer,
      const std::optional<DistributedStrategy>& strategy = std::nullopt);

  void barrier_worker() const { util_.barrier(); }

  const GroupPtr& group() const { return axes_.world; }

  // The groups that hybrid_configs describe.
  const Axes& axes() const { return axes_; }

 private:
  void check_has_no_stages() const;
  ModelSetup prepare(torch::nn::Module& module);
  void replace_strategy(const DistributedStrategy& strategy);

  JobRole role_;
  DistributedStrategy strategy_;
  Axes axes_;
  UtilBase util_;
  std::shared_ptr<Registry> registry_;
};

// Joins the world (or takes the calling thread's world if it has one) and makes
// a Fleet, which replaces the world's previous one. All workers call it with
// the same strategy. Blocks until all workers have called it.
//
// Throws what init_parallel_env() throws, and InvalidArgument when the role
// contradicts the world, when the job is not collective, when settings of
// the strategy exclude each other, or when strategies differ between workers
// (thrown on all of them).
std::shared_ptr<Fleet> init(
    bool is_collective = false,
    const DistributedStrategy& strategy = {},
    const InitOptions& options = {});
std::shared_ptr<Fleet> init(
    const JobRole& role,
    const DistributedStrategy& strategy = {},
    const InitOptions& options = {});

// Returns the Fleet of the calling thread's world. Before init(), throws
// InvalidArgument whose message starts with `op`.
std::shared_ptr<Fleet> current_fleet(const char* op);

// JobRole's methods of the same names, for the current Fleet.
bool is_first_worker();
bool is_worker();
bool is_server();
int worker_index();
int worker_num();
int server_index();
int server_num();
int node_num();
int local_rank();
std::vector<std::string> worker_endpoints();
std::vector<std::string> server_endpoints();
const UtilBase& util();

// Blocks until all workers have called it.
void barrier_worker();

// This rank's coordinates and groups on the axes of hybrid_configs.
HybridMeshPtr hybrid_mesh();

// The index of the data shard that this rank trains on, and the number of
// shards: pass them to a sampler. Ranks of one tensor, sequence or pipeline
// parallel group read the same shard.
int data_rank();
int data_num();

// For compatibility with parameter server programs: a collective job needs no
// connection to servers, so these do nothing after checking for init().
void init_worker();
void stop_worker();

// The same functions of the current Fleet; see the class.
template <typename Module>
DistributedModel<Module> distributed_model(Module module) {
  return current_fleet("fleet.distributed_model")
      ->distributed_model(std::move(module));
}

PipelineModel distributed_model(const pipeline::PipelineLayer& layers);

PipelineModel distributed_model(
    const std::shared_ptr<pipeline::StageModel>& stage,
    std::vector<pipeline::LossFn> loss_fns);

DistributedOptimizer distributed_optimizer(
    torch::optim::Optimizer& optimizer,
    const std::optional<DistributedStrategy>& strategy = std::nullopt);

} // namespace argosy::fleet
