#pragma once

#include <vector>

#include "argosy/pipeline/stage_model.h"

namespace argosy::pipeline {

// Both by messages between the stages that hold a weight, which all of them
// call.

// All get the values of the first, whose one is marked so.
void share_weights(
    const std::vector<SharedWeight>& weights, const GroupPtr& group);

// All get the sum of their gradients, added up in the order of the stages. One
// without a gradient counts as zero.
void sum_gradients(
    const std::vector<SharedWeight>& weights, const GroupPtr& group);

} // namespace argosy::pipeline
