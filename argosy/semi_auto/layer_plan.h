#pragma once

#include <string>

#include "argosy/semi_auto/plans.h"

namespace argosy::semi_auto {

// A layer that a plan applies to, and the mesh axis to shard it over.
struct PlannedLayer {
  std::string name;
  torch::nn::Module& module;
  ProcessMesh mesh;
  int axis;
};

// Applies a plan to a layer; if `parameter` is not empty, to that parameter
// only. Throws InvalidArgument when the plan does not fit the layer.
void apply_plan(
    const PlannedLayer& layer,
    const LayerPlan& plan,
    const std::string& parameter = "");

} // namespace argosy::semi_auto
