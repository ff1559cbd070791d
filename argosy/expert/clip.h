#pragma once

#include <vector>

#include "argosy/comm/ops.h"

namespace argosy {

// optim::clip_grad_norm_() of a model with experts, by the norm of the
// gradients of all of it, which is returned: what is marked is_expert
// (parameter_marks.h) is added up over the ranks of the group, which have
// different experts; the rest is the same on all of them and counts once. All
// ranks of the group call it; blocks. Null is the group of the expert axis
// (hybrid_mesh.h), or all ranks.
double clip_grad_norm_moe(
    const std::vector<at::Tensor>& parameters,
    double max_norm,
    const GroupPtr& expert_group = nullptr);

} // namespace argosy
