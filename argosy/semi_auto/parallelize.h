#pragma once

#include <memory>
#include <vector>

#include "argosy/semi_auto/plans.h"
#include "argosy/semi_auto/shard_optimizer.h"

namespace argosy {

namespace pipeline {
class CutStage;
struct LayerDesc;
} // namespace pipeline

// Makes an unchanged model parallel, by a plan that names layers:
//
//   ProcessMesh mesh({2, 2}, {"dp", "mp"});
//   parallelize(*gpt, mesh, {.mp_config = {{{
//       {"blocks\\..*\\.(qkv|up)", ColWiseParallel()},
//       {"blocks\\..*\\.(out|down)", RowWiseParallel()},
//   }}}});
//
// Parameters that a plan shards stay sharded in every op; all others become
// Replicate. If there are plans, the mesh must have an axis named "mp". A
// pattern that matches nothing is logged as a warning. A plan that changes
// inputs or outputs needs a layer with a weight of its own that a single op
// uses, such as Linear.
//
// All ranks of the mesh call it alike, with models of equal values. Throws
// InvalidArgument when a plan does not fit its layer, and for a pp_config,
// which needs to run the model: see below.
void parallelize(
    torch::nn::Module& model,
    const ProcessMesh& mesh,
    const ParallelizeConfig& config);

// The same, and shards the state of an optimizer over the model's parameters as
// dp_config says. `optimizer` must outlive the result.
ShardOptimizer parallelize(
    torch::nn::Module& model,
    torch::optim::Optimizer& optimizer,
    const ProcessMesh& mesh,
    const ParallelizeConfig& config);

// With a pp_config: cuts the model into stages over the axis "pp" of the mesh
// and applies the plans to the stage of this rank, over the other axes:
//
//   ProcessMesh mesh({2, 2, 2}, {"pp", "dp", "mp"});
//   auto stage = parallelize(pipeline::existing(gpt), {tokens}, mesh,
//       {.mp_config = plan, .pp_config = ParallelizeConfig::Pp{}});
//   pipeline::PipelineParallel trainer(stage, {loss}, {.microbatches = 4});
//   optim::AdamW adam(stage->module().parameters(), 1e-3);
//   auto optimizer = shard_optimizer(adam, ShardingStage1("dp"));
//
// `examples` are the inputs of one microbatch as this rank has them; only
// shapes and types matter. Inputs and labels of the trainer are plain tensors,
// too: each rank's own rows along the axis "dp" (and along that of
// dp_config.sharding_mesh_dim), and the same on ranks that differ on other axes
// alone. The loss function gets DTensors, and the loss is that of the rows of
// all ranks. With a sharding_level of 3, parameters are sharded from the
// beginning; the optimizer gets its stage from shard_optimizer().
//
// All ranks of the mesh call it alike; it communicates. No rank ever holds
// parameters of another stage if the model was made under DeferredInit. Throws
// InvalidArgument as above, as CutStage does, and without an axis "pp".
std::shared_ptr<pipeline::CutStage> parallelize(
    const pipeline::LayerDesc& model,
    std::vector<at::Tensor> examples,
    const ProcessMesh& mesh,
    const ParallelizeConfig& config);

} // namespace argosy
