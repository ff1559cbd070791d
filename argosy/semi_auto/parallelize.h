#pragma once

#include "argosy/semi_auto/plans.h"
#include "argosy/semi_auto/shard_optimizer.h"

namespace argosy {

// Makes an unchanged model parallel, by a plan that names its layers.
//
//   ProcessMesh mesh({2, 2}, {"dp", "mp"});
//   parallelize(*gpt, mesh, {.mp_config = {{{
//       {"blocks\\..*\\.(qkv|up)", ColWiseParallel()},
//       {"blocks\\..*\\.(out|down)", RowWiseParallel()},
//   }}}});
//
// Parameters that a plan cuts are never gathered; all others become Replicate.
// The mesh needs an axis "mp" when there are plans. What matches no layer is
// said in the log. A plan that changes inputs or outputs needs a layer with a
// weight of its own, whose op is the layer. Throws InvalidArgument for a plan
// that does not fit its layer. All ranks of the mesh must call it.
void parallelize(
    torch::nn::Module& model,
    const ProcessMesh& mesh,
    const ParallelizeConfig& config);

// With an optimizer over the model's parameters, which dp_config may shard.
ShardOptimizer parallelize(
    torch::nn::Module& model,
    torch::optim::Optimizer& optimizer,
    const ProcessMesh& mesh,
    const ParallelizeConfig& config);

} // namespace argosy
