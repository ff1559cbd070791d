#include "argosy/expert/global_scatter.h"

#include <ATen/core/Tensor.h>

#include "argosy/common/error.h"
#include "argosy/expert/all_to_all_plan.h"
#include "argosy/expert/row_travel.h"
#include "argosy/mesh/hybrid_mesh.h"
#include "argosy/torch_hooks/graph_node.h"

namespace argosy {

namespace expert {

at::Tensor send_to_experts(
    const at::Tensor& x, const AllToAllPlan& plan, const GroupPtr& group) {
  return start_to_experts(x, plan, group, true)();
}

at::Tensor return_from_experts(
    const at::Tensor& x, const AllToAllPlan& plan, const GroupPtr& group) {
  return start_from_experts(x, plan, group, true)();
}

} // namespace expert

namespace expert {

namespace {

using expert::AllToAllPlan;

// One direction, to the experts or back. Its gradient goes in the other
// direction.
struct Way {
  AllToAllPlan plan;
  GroupPtr group;

  at::Tensor go(const at::Tensor& x, bool forth) const {
    return torch_hooks::apply(
        x,
        [&](const at::Tensor& in) {
          const at::Tensor out = forth
              ? expert::send_to_experts(in, plan, group)
              : expert::return_from_experts(in, plan, group);
          // On one rank nothing may move; autograd needs a tensor of its own.
          return out.is_same(in) ? out.detach() : out;
        },
        [way = *this, forth](const at::Tensor& grad) {
          return way.go(grad, !forth);
        });
  }
};

std::vector<std::int64_t> counts_of(const at::Tensor& tensor) {
  ARGOSY_CHECK(
      tensor.scalar_type() == at::kLong,
      "[expert.global_scatter] counts are {}, expected int64",
      c10::toString(tensor.scalar_type()));
  const at::Tensor counts = tensor.contiguous();
  const auto* data = counts.data_ptr<std::int64_t>();
  return {data, data + counts.numel()};
}

at::Tensor go(
    const at::Tensor& x,
    const at::Tensor& local_count,
    const at::Tensor& global_count,
    const GroupPtr& group,
    bool forth) {
  const GroupPtr members = group_or_axis(group, "expert");
  const Way way{
      expert::plan_all_to_all(
          counts_of(local_count),
          counts_of(global_count),
          {members->nranks(), members->rank()}),
      members};
  const std::int64_t rows =
      forth ? way.plan.num_sent() : way.plan.num_received();
  ARGOSY_CHECK(
      x.dim() == 2 && x.size(0) == rows,
      "[expert.{}] a tensor {}, expected {} rows as the counts say",
      forth ? "global_scatter" : "global_gather",
      x.sizes(),
      rows);
  return way.go(x, forth);
}

} // namespace

at::Tensor global_scatter(
    const at::Tensor& x,
    const at::Tensor& local_count,
    const at::Tensor& global_count,
    const GroupPtr& group) {
  return go(x, local_count, global_count, group, true);
}

at::Tensor global_gather(
    const at::Tensor& x,
    const at::Tensor& local_count,
    const at::Tensor& global_count,
    const GroupPtr& group) {
  return go(x, local_count, global_count, group, false);
}

} // namespace expert
} // namespace argosy
