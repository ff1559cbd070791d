#pragma once

#include <string>

#include "argosy/semi_auto/plans.h"

namespace argosy::semi_auto {

// Where a plan is carried out: a layer, and the axis that cuts it.
struct PlannedLayer {
  std::string name;
  torch::nn::Module& module;
  ProcessMesh mesh;
  int axis;
};

// Carries out a plan on a layer, and on one of its parameters only if
// `parameter` is not empty. Throws InvalidArgument when it does not fit.
void apply_plan(
    const PlannedLayer& layer,
    const LayerPlan& plan,
    const std::string& parameter = "");

} // namespace argosy::semi_auto
