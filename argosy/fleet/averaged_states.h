#pragma once

#include "argosy/comm/ops.h"

namespace torch::optim {
class Optimizer;
}

// Local SGD with optimizers that keep moments. Not installed.
namespace argosy::fleet {

// Whether average_states() knows all that the optimizer keeps.
bool has_known_states(const torch::optim::Optimizer& optimizer);

// Replaces the moments of the optimizer by their means over the group; counts
// of steps and master weights stay. Does nothing for SGD, whose momentum stays
// each rank's own, as in Paddle. A parameter that a rank has not stepped counts
// as one whose moments are 0 there. All ranks of the group call it with
// optimizers of equal parameters; blocks.
void average_states(torch::optim::Optimizer& optimizer, const GroupPtr& group);

} // namespace argosy::fleet
