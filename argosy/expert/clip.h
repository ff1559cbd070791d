#pragma once

#include <vector>

#include "argosy/comm/ops.h"

namespace argosy {

// optim::clip_grad_norm_() for a model with experts. Clips by the norm of all
// gradients and returns it. Sums over the ranks of the group for parameters
// that are marked is_expert (parameter_marks.h), because the ranks hold
// different experts; other parameters are the same on all ranks and count once.
// All ranks of the group must call it alike; blocks. `expert_group` null: the
// group of the expert axis (hybrid_mesh.h), or all ranks.
double clip_grad_norm_moe(
    const std::vector<at::Tensor>& parameters,
    double max_norm,
    const GroupPtr& expert_group = nullptr);

} // namespace argosy
