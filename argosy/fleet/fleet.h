#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "argosy/fleet/axes.h"
#include "argosy/fleet/model.h"
#include "argosy/fleet/optimizer.h"
#include "argosy/fleet/role_maker.h"
#include "argosy/fleet/strategy.h"
#include "argosy/fleet/util.h"
#include "argosy/pipeline/stage_model.h"
#include "argosy/world/init.h"

namespace argosy::pipeline {
class PipelineLayer;
}

// Distributed training by a strategy, named as in paddle.distributed.fleet:
//
//   fleet::DistributedStrategy strategy;
//   strategy.gradient_merge = true;
//   strategy.gradient_merge_configs.k_steps = 4;
//   fleet::init(true, strategy);
//   auto model = fleet::distributed_model(net);
//   auto optimizer = fleet::distributed_optimizer(sgd);
namespace argosy::fleet {

class PipelineModel; // argosy/fleet/pipeline_model.h

// One rank's part in a job, and how it trains. Belongs to a world, of which it
// is the current one; the functions below call that of the calling thread's
// world. Not thread-safe.
class Fleet {
 public:
  // In the calling thread's world.
  Fleet(RoleMaker role, const DistributedStrategy& strategy);

  const RoleMaker& role() const { return role_; }
  const DistributedStrategy& strategy() const { return strategy_; }
  const UtilBase& util() const { return util_; }

  // Models come from the strategy that init() has; their modules stay the same
  // objects. With sync_batch_norm and amp_configs.use_pure_bf16 they are
  // changed.
  template <typename Module>
  DistributedModel<Module> distributed_model(Module module) {
    check_has_no_stages();
    ModelSetup setup = prepare(training::as_module(module));
    return DistributedModel<Module>(std::move(module), setup);
  }

  // With stages of a pipeline; its loss functions are those of the layers.
  PipelineModel distributed_model(const pipeline::PipelineLayer& layers);
  // The same of a module that is cut elsewhere (pipeline::CutStage).
  PipelineModel distributed_model(
      const std::shared_ptr<pipeline::StageModel>& stage,
      std::vector<pipeline::LossFn> loss_fns);

  // `optimizer` must outlive the result. With lars, lamb and dgc another takes
  // its place. Another strategy than that of init() becomes the fleet's; throws
  // InvalidArgument when a model has been made by the one before, and when the
  // optimizer and the strategy do not go together.
  DistributedOptimizer distributed_optimizer(
      torch::optim::Optimizer& optimizer,
      const std::optional<DistributedStrategy>& strategy = std::nullopt);

  void barrier_worker() const { util_.barrier(); }

  const GroupPtr& group() const { return axes_.world; }

  // Where this rank stands on each axis of hybrid_configs, and its groups.
  const Axes& axes() const { return axes_; }

 private:
  void check_has_no_stages() const;
  ModelSetup prepare(torch::nn::Module& module);
  void take(const DistributedStrategy& strategy);

  RoleMaker role_;
  DistributedStrategy strategy_;
  Axes axes_;
  UtilBase util_;
  std::shared_ptr<Pairs> pairs_;
};

// Makes this thread a worker and gives it a fleet, which takes the place of the
// one before. All workers call it, with the same strategy, and it returns when
// all have. In a world that exists already, that world.
//
// Throws what init_parallel_env() throws, and InvalidArgument when the role
// maker and the world disagree, when it is not one of a collective job, when
// switches of the strategy exclude each other, and when workers have different
// strategies (on all of them).
std::shared_ptr<Fleet> init(
    bool is_collective = false,
    const DistributedStrategy& strategy = {},
    const InitOptions& options = {});
std::shared_ptr<Fleet> init(
    const RoleMaker& role_maker,
    const DistributedStrategy& strategy = {},
    const InitOptions& options = {});

// The fleet of the calling thread's world. Throws InvalidArgument, tagged with
// `op`, before init().
std::shared_ptr<Fleet> current_fleet(const char* op);

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

// Returns when all workers have called it.
void barrier_worker();

// Where this rank stands on the axes of the strategy's hybrid_configs.
std::shared_ptr<const HybridCommunicateGroup> get_hybrid_communicate_group();

// Which part of the data this rank trains with, of how many: ranks with parts
// of one layer, one sequence or one pipeline share theirs.
int data_rank();
int data_num();

// Workers of a collective job have nobody to connect to: these do nothing.
void init_worker();
void stop_worker();

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
