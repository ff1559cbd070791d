#pragma once

#include <vector>

#include "argosy/pipeline/stage_model.h"

namespace argosy::pipeline {

// Point-to-point communication for weights that several stages hold. All stages
// that hold one of the weights call these alike; they block.

// Copies the first stage's values to the others. Marks the first stage's
// parameter as the one that gradient norms count.
void share_weights(
    const std::vector<SharedWeight>& weights, const GroupPtr& group);

// Replaces each gradient by the sum over the stages, added in stage order. A
// missing gradient counts as zero.
void sum_gradients(
    const std::vector<SharedWeight>& weights, const GroupPtr& group);

} // namespace argosy::pipeline
