#include "argosy/sharding/model_plan.h"

#include <algorithm>

#include "argosy/common/error.h"

namespace argosy::sharding {

namespace {

bool is_inside(
    const std::string& name, const std::vector<std::string>& modules) {
  return std::ranges::any_of(modules, [&](const std::string& module) {
    return name.rfind(module + ".", 0) == 0;
  });
}

// A misspelt name would cut a layer that should stay whole.
void check_excluded(
    const std::vector<ParameterInfo>& parameters,
    const std::vector<std::string>& exclude_layer) {
  for (const std::string& layer : exclude_layer) {
    ARGOSY_CHECK(
        std::ranges::any_of(
            parameters,
            [&](const auto& each) { return is_inside(each.name, {layer}); }),
        "[sharding] exclude_layer: there is no parameter in a module \"{}\"",
        layer);
  }
}

// Plans the units of the parameters `chosen`, by index.
template <typename Members>
std::vector<UnitPlan> plan_some(
    const std::vector<ParameterInfo>& all,
    const std::vector<std::size_t>& chosen,
    int num_ranks,
    bool resident,
    const Members& members) {
  std::vector<ParameterInfo> some;
  for (const std::size_t i : chosen) {
    some.push_back(all[i]);
  }
  std::vector<UnitPlan> plan;
  if (some.empty()) {
    return plan;
  }
  for (UnitMembers& unit : members_by_fusion(some, members)) {
    // The plan of some parameters counts among those; map back to all.
    for (std::size_t& index : unit.parameters) {
      index = chosen[index];
    }
    plan.push_back(plan_unit(all, unit, num_ranks));
    plan.back().resident = resident;
  }
  return plan;
}

} // namespace

std::vector<UnitPlan> plan_model(
    const std::vector<ParameterInfo>& parameters,
    Level level,
    const ShardingOptions& options,
    int num_ranks) {
  check_excluded(parameters, options.exclude_layer);
  std::vector<std::size_t> whole;
  std::vector<std::size_t> cut;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const bool is_cut = level == Level::p_g_os &&
        !is_inside(parameters[i].name, options.exclude_layer);
    (is_cut ? cut : whole).push_back(i);
  }
  std::vector<UnitPlan> plan =
      plan_some(parameters, cut, num_ranks, false, [&](const auto& some) {
        return members_by_module(some, options.units, options.segment_size);
      });
  const std::vector<UnitPlan> rest =
      plan_some(parameters, whole, num_ranks, true, [&](const auto& some) {
        return members_by_size(some, options.buffer_max_size);
      });
  plan.insert(plan.end(), rest.begin(), rest.end());
  return plan;
}

} // namespace argosy::sharding
