#pragma once

#include <vector>

#include "argosy/sharding/sharded_core.h"
#include "argosy/sharding/unit_plan.h"

namespace argosy::sharding {

// The units of all parameters of a model: those that stay whole on every rank,
// by size, behind those that do not, by module. Throws InvalidArgument if an
// excluded layer has no parameter. Not installed.
std::vector<UnitPlan> plan_model(
    const std::vector<ParameterInfo>& parameters,
    Level level,
    const ShardingOptions& options,
    int num_ranks);

} // namespace argosy::sharding
