#include "argosy/optim/parts.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

#include "argosy/comm/operation/label.h"
#include "argosy/comm/ops.h"
#include "argosy/dtensor/tensor/tensor.h"
#include "argosy/mesh/rank_mesh.h"
#include "argosy/optim/fused_entry.h"
#include "argosy/torch_hooks/tensor_tag.h"

namespace argosy::optim {

namespace {

struct PartTag {
  Groups groups;
};

Groups groups_of(const dtensor::Parts& parts) {
  std::vector<int> axes;
  for (std::size_t axis = 0; axis < parts.placements.size(); ++axis) {
    // Over replicated axes all ranks have the same sums: adding those up would
    // count elements several times.
    if (parts.placements[axis].is_shard()) {
      axes.push_back(static_cast<int>(axis));
    }
  }
  if (axes.empty() || !parts.mesh->is_member()) {
    return {};
  }
  return {parts.mesh->ranks().group_over(axes)};
}

// One all_reduce for all parameters of a group, because each is only a few
// numbers.
void add_over(
    const GroupPtr& group,
    const std::vector<std::size_t>& parameters,
    std::vector<Sums>& sums) {
  const auto count = static_cast<std::int64_t>(parameters.size());
  const at::Tensor all = at::empty({count, kNumSums}, at::kDouble);
  auto* const numbers = all.data_ptr<double>();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    std::copy_n(sums[parameters[i]].begin(), kNumSums, numbers + i * kNumSums);
  }
  static const OpLabel label("norms of parameters");
  const LabelScope scope(label);
  all_reduce(all, ReduceOp::SUM, group);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    std::copy_n(numbers + i * kNumSums, kNumSums, sums[parameters[i]].begin());
  }
}

} // namespace

void set_part_groups(const at::Tensor& parameter, Groups groups) {
  std::erase_if(groups, [](const auto& group) { return group->nranks() == 1; });
  torch_hooks::set_tag(parameter, PartTag{std::move(groups)});
}

Groups part_groups(const at::Tensor& parameter) {
  if (const dtensor::Parts* parts = dtensor::parts_of(parameter)) {
    return groups_of(*parts);
  }
  const auto* tag = torch_hooks::find_tag<PartTag>(parameter);
  return tag == nullptr ? Groups() : tag->groups;
}

void add_over_groups(
    const std::vector<Groups>& groups, std::vector<Sums>& sums) {
  std::size_t most = 0;
  for (const Groups& each : groups) {
    most = std::max(most, each.size());
  }
  for (std::size_t level = 0; level < most; ++level) {
    // In the order of the parameters, which is the same on all ranks.
    std::vector<std::pair<GroupPtr, std::vector<std::size_t>>> members;
    for (std::size_t i = 0; i < groups.size(); ++i) {
      if (level >= groups[i].size()) {
        continue;
      }
      auto found = std::ranges::find_if(members, [&](const auto& each) {
        return each.first == groups[i][level];
      });
      if (found == members.end()) {
        found = members.insert(members.end(), {groups[i][level], {}});
      }
      found->second.push_back(i);
    }
    for (const auto& [group, parameters] : members) {
      add_over(group, parameters, sums);
    }
  }
}

void add_over_parts(std::vector<Entry>& entries, PartSums* part_sums) {
  std::vector<Sums> sums;
  std::vector<const at::Tensor*> parts;
  std::vector<Groups> groups;
  for (const Entry& entry : entries) {
    sums.push_back(entry.sums);
    parts.push_back(entry.whole);
    groups.push_back(part_groups(*entry.whole));
  }
  if (part_sums != nullptr) {
    part_sums->add(parts, sums);
  } else {
    add_over_groups(groups, sums);
  }
  set_sums(entries, sums);
}

} // namespace argosy::optim
