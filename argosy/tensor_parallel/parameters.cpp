#include "argosy/tensor_parallel/parameters.h"

#include <ATen/ops/full.h>
#include <torch/nn/module.h>

#include "argosy/comm/shards.h"
#include "argosy/common/error.h"
#include "argosy/mesh/hybrid_mesh.h"
#include "argosy/tensor_parallel/nested_cuts.h"
#include "argosy/training/parameter_marks.h"

namespace argosy::tensor_parallel {

namespace {

using Named = torch::OrderedDict<std::string, at::Tensor>;

void load_all(const Named& to, const Named& from, const GroupPtr& group) {
  for (const auto& item : to) {
    const at::Tensor* whole = from.find(item.key());
    ARGOSY_CHECK(
        whole != nullptr,
        "[tensor_parallel.load_module] the whole module has no ",
        item.key());
    load_parameter(item.value(), *whole, group);
  }
}

// This rank's part of a whole parameter.
at::Tensor part_for(
    const at::Tensor& parameter,
    const at::Tensor& whole,
    const GroupPtr& group) {
  if (const Cuts* cuts = find_cuts(parameter)) {
    return own_part(whole, *cuts);
  }
  const ParameterMarks marks = marks_of(parameter);
  return marks.is_distributed
      ? comm::own_shard(whole, marks.split_axis, *group_or_axis(group, "model"))
      : whole;
}

} // namespace

at::Tensor full_parameter(const at::Tensor& parameter, const GroupPtr& group) {
  const at::Tensor part = parameter.detach();
  if (const Cuts* cuts = find_cuts(parameter)) {
    return gathered(part, *cuts);
  }
  const ParameterMarks marks = marks_of(parameter);
  if (!marks.is_distributed) {
    return part;
  }
  const GroupPtr members = group_or_axis(group, "model");
  // Slices may differ in size by rank, so the size of the whole is not a
  // multiple of the own one.
  const at::Tensor size = at::full({1}, part.size(marks.split_axis), at::kLong);
  all_reduce(size, ReduceOp::SUM, members);
  return comm::gather_shards(
      part, marks.split_axis, size.item<std::int64_t>(), members)();
}

void load_parameter(
    const at::Tensor& parameter,
    const at::Tensor& whole,
    const GroupPtr& group) {
  const at::NoGradGuard no_grad;
  const at::Tensor part = part_for(parameter, whole, group);
  ARGOSY_CHECK(
      part.sizes() == parameter.sizes(),
      "[tensor_parallel.load_parameter] this rank's slice is {} of {}, "
      "expected {}",
      part.sizes(),
      whole.sizes(),
      parameter.sizes());
  parameter.copy_(part);
}

void load_module(
    torch::nn::Module& module,
    const torch::nn::Module& whole,
    const GroupPtr& group) {
  load_all(module.named_parameters(), whole.named_parameters(), group);
  load_all(module.named_buffers(), whole.named_buffers(), group);
}

} // namespace argosy::tensor_parallel
