#pragma once

#include "argosy/semi_auto/plans.h"
#include "argosy/semi_auto/shard_optimizer.h"

namespace argosy {

// Makes an unchanged model parallel, by a plan that names layers:
//
//   const auto mesh = ProcessMesh::of_shape({2, 2}, {"dp", "mp"});
//   parallelize(*gpt, mesh, {.mp_config = {
//       {"blocks\\..*\\.(qkv|up)", ColWiseParallel()},
//       {"blocks\\..*\\.(out|down)", RowWiseParallel()}}});
//
// Parameters that a plan shards stay sharded in every op; all others become
// Replicate. If there are plans, the mesh must have an axis named "mp". A
// pattern that matches nothing is logged as a warning. A plan that changes
// inputs or outputs needs a layer with a weight of its own that a single op
// uses, such as Linear.
//
// All ranks of the mesh call it alike, with models of equal values. Throws
// InvalidArgument when a plan does not fit its layer.
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

// The same on the current mesh (set_mesh()).
void parallelize(torch::nn::Module& model, const ParallelizeConfig& config);
ShardOptimizer parallelize(
    torch::nn::Module& model,
    torch::optim::Optimizer& optimizer,
    const ParallelizeConfig& config);

} // namespace argosy
