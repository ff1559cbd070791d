#include "argosy/fleet/spread_gradients.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <map>

#include "argosy/dtensor/dtensor.h"
#include "argosy/dtensor/tensor/value_checks.h"

namespace argosy::fleet {

namespace {

// Names of axes in meshes of DTensors and in topologies.
const std::map<std::string, std::string> kDataAxes = {
    {"dp", "data"}, {"sharding", "sharding"}, {"ep", "expert"}};

constexpr std::size_t kBucketBytes = 25 << 20;

// What lies in one bucket: sums over the same axes, of one type.
using Kind = std::pair<std::vector<std::string>, c10::ScalarType>;

} // namespace

std::vector<int> data_axes(const ProcessMesh& mesh) {
  std::vector<int> axes;
  for (int axis = 0; axis < mesh.ndim(); ++axis) {
    if (kDataAxes.contains(mesh.dim_names()[static_cast<std::size_t>(axis)])) {
      axes.push_back(axis);
    }
  }
  return axes;
}

struct SpreadGradients::Sum {
  std::size_t parameter = 0;
  std::vector<std::string> axes; // over which it is a sum, as in topologies
  at::Tensor local;
  Placements placements; // of the sum
};

SpreadGradients::SpreadGradients(
    const torch::nn::Module& module,
    std::shared_ptr<data_parallel::BucketHook> hook,
    HybridMeshPtr hybrid)
    : hook_(std::move(hook)), hybrid_(std::move(hybrid)) {
  for (const auto& each : module.named_parameters(true)) {
    if (each.value().defined() && each.value().requires_grad()) {
      parameters_.emplace_back(each.key(), each.value());
    }
  }
}

// Sums over axes whose ranks share their data are not compressed: they come
// first.
SpreadGradients::Sum SpreadGradients::begin(std::size_t parameter) const {
  const at::Tensor& tensor = parameters_[parameter].second;
  const ProcessMesh mesh = process_mesh_of(tensor);
  Sum sum{.parameter = parameter};
  sum.placements = gradient_placements(placements_of(tensor));
  const Placements now = placements_of(tensor.grad());
  Placements first = sum.placements;
  for (const int axis : data_axes(mesh)) {
    const auto i = static_cast<std::size_t>(axis);
    if (now[i] == Partial()) {
      first[i] = now[i];
      sum.axes.push_back(kDataAxes.at(mesh.dim_names()[i]));
    }
  }
  sum.local = to_local(reshard(tensor.grad(), first));
  return sum;
}

std::vector<std::vector<SpreadGradients::Sum>> SpreadGradients::buckets(
    const std::function<bool(const at::Tensor&)>& is_wanted) const {
  std::map<Kind, std::vector<Sum>> open;
  std::vector<std::vector<Sum>> full;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor& parameter = parameters_[i].second;
    if (!parameter.grad().defined() || !is_wanted(parameter)) {
      continue;
    }
    Sum sum = begin(i);
    const Kind kind(sum.axes, sum.local.scalar_type());
    std::vector<Sum>& bucket = open[kind];
    bucket.push_back(std::move(sum));
    std::size_t bytes = 0;
    for (const Sum& each : bucket) {
      bytes += each.local.nbytes();
    }
    if (bytes >= kBucketBytes) {
      full.push_back(std::move(open.extract(kind).mapped()));
    }
  }
  for (auto& [kind, bucket] : open) {
    full.push_back(std::move(bucket));
  }
  return full;
}

void SpreadGradients::reduce(
    const std::function<bool(const at::Tensor&)>& is_wanted) {
  const at::NoGradGuard no_grad;
  const dtensor::TrustedValues equal;
  std::vector<data_parallel::GradBucket> started;
  std::vector<GroupPtr> groups;
  auto all = buckets(is_wanted);
  for (const std::vector<Sum>& sums : all) {
    const GroupPtr group = hybrid_->group_over(sums.front().axes);
    data_parallel::GradBucket bucket{.index = started.size()};
    std::int64_t count = 0;
    for (const Sum& sum : sums) {
      count += sum.local.numel();
    }
    bucket.flat = at::empty({count}, sums.front().local.options());
    count = 0;
    for (const Sum& sum : sums) {
      const at::Tensor part = bucket.flat.narrow(0, count, sum.local.numel());
      count += sum.local.numel();
      // A summand of the mean over all data; the hook averages such means.
      bucket.gradients.push_back(part.view(sum.local.sizes()));
      bucket.gradients.back().copy_(sum.local).mul_(group->nranks());
      bucket.parameters.push_back(sum.parameter);
      bucket.values.push_back(parameters_[sum.parameter].second);
    }
    hook_->start(bucket, group);
    started.push_back(std::move(bucket));
    groups.push_back(group);
  }
  for (std::size_t i = 0; i < started.size(); ++i) {
    hook_->finish(started[i], groups[i]);
    for (std::size_t j = 0; j < all[i].size(); ++j) {
      const at::Tensor& parameter = parameters_[all[i][j].parameter].second;
      parameter.mutable_grad() = from_local(
          started[i].gradients[j],
          process_mesh_of(parameter),
          all[i][j].placements,
          parameter.sizes().vec());
    }
  }
}

data_parallel::MemoryOwner SpreadGradients::owner() const {
  data_parallel::MemoryOwner owner{
      .group = hybrid_->group_over({"data", "sharding", "expert"}),
      .parameters = {}};
  for (const auto& [name, parameter] : parameters_) {
    owner.parameters.emplace_back(name, to_local(parameter.detach()).numel());
  }
  return owner;
}

training::ModelCore::Memory SpreadGradients::memory() const {
  return data_parallel::memory_of(hook_.get(), owner());
}

void SpreadGradients::set_memory(const training::ModelCore::Memory& memory) {
  data_parallel::set_memory_of(hook_.get(), owner(), memory);
}

} // namespace argosy::fleet
