#include "argosy/optim/local.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

#include "argosy/comm/operation/label.h"
#include "argosy/comm/ops.h"
#include "argosy/common/error.h"
#include "argosy/dtensor/dtensor.h"
#include "argosy/dtensor/tensor/tensor.h"
#include "argosy/mesh/rank_mesh.h"
#include "argosy/optim/fused_entry.h"

namespace argosy::optim {

// A reference into the DTensor: entries of a step point to it.
const at::Tensor& local_of(const at::Tensor& tensor) {
  const dtensor::Parts* parts = dtensor::parts_of(tensor);
  return parts == nullptr ? tensor : parts->local;
}

std::vector<at::Tensor> locals_of(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> locals;
  locals.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    locals.push_back(local_of(tensor));
  }
  return locals;
}

at::Tensor beside(const at::Tensor& grad, const at::Tensor& param) {
  const Placements placements = placements_of(param);
  ARGOSY_CHECK(
      !has_partial(placements),
      "[optim.step] a parameter is {}, expected Shard and Replicate",
      placements);
  return reshard(grad, process_mesh_of(param), placements);
}

at::Tensor global_like(const at::Tensor& local, const at::Tensor& param) {
  const dtensor::Parts* parts = dtensor::parts_of(param);
  if (parts == nullptr) {
    return local;
  }
  return dtensor::make_dtensor(
      {.local = local, .mesh = parts->mesh, .placements = parts->placements},
      param.sizes());
}

at::Tensor local_like(const at::Tensor& global, const at::Tensor& param) {
  if (!is_dtensor(param)) {
    return global;
  }
  return local_of(
      shard_tensor(global, process_mesh_of(param), placements_of(param)));
}

namespace {

std::shared_ptr<Group> group_of_parts(const at::Tensor& tensor) {
  const dtensor::Parts* parts = dtensor::parts_of(tensor);
  if (parts == nullptr || !parts->mesh->is_member()) {
    return nullptr;
  }
  std::vector<int> axes;
  for (std::size_t axis = 0; axis < parts->placements.size(); ++axis) {
    // Over replicated axes all ranks have the same sums: adding those up would
    // count elements several times.
    if (parts->placements[axis].is_shard()) {
      axes.push_back(static_cast<int>(axis));
    }
  }
  return axes.empty() ? nullptr : parts->mesh->ranks().group_over(axes);
}

// One all_reduce for all parameters of a group, because each is only a few
// numbers.
void add_over(
    const GroupPtr& group,
    const std::vector<std::size_t>& entries,
    std::vector<Sums>& sums) {
  const auto count = static_cast<std::int64_t>(entries.size());
  const at::Tensor all = at::empty({count, kNumSums}, at::kDouble);
  auto* const numbers = all.data_ptr<double>();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    std::copy_n(sums[entries[i]].begin(), kNumSums, numbers + i * kNumSums);
  }
  static const OpLabel label("norms of parameters");
  const LabelScope scope(label);
  all_reduce(all, ReduceOp::SUM, group);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    std::copy_n(numbers + i * kNumSums, kNumSums, sums[entries[i]].begin());
  }
}

} // namespace

void add_over_parts(
    const std::vector<Entry>& entries, std::vector<Sums>& sums) {
  // In the order of the entries, which is the same on all ranks.
  std::vector<std::pair<GroupPtr, std::vector<std::size_t>>> groups;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const GroupPtr group = group_of_parts(*entries[i].whole);
    if (group == nullptr) {
      continue;
    }
    auto found = std::ranges::find_if(
        groups, [&](auto& each) { return each.first == group; });
    if (found == groups.end()) {
      found = groups.insert(groups.end(), {group, {}});
    }
    found->second.push_back(i);
  }
  for (const auto& [group, of_group] : groups) {
    add_over(group, of_group, sums);
  }
}

} // namespace argosy::optim
