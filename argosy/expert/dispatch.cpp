#include "argosy/expert/dispatch.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>

#include "argosy/common/error.h"
#include "argosy/expert/global_scatter.h"
#include "argosy/expert/routing.h"
#include "argosy/expert/row_kernels.h"
#include "argosy/observe/span.h"
#include "argosy/torch_hooks/kept_value.h"

namespace argosy::expert {

struct Dispatch {
  at::Tensor slots; // row of each choice in what this rank sends; -1: dropped
  AllToAllPlan all_to_all;
  GroupPtr group;
};

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

// Names of the spans in traces, in forward and backward.
constexpr const char* kDispatch = "dispatch to experts";
constexpr const char* kCombine = "combine of experts";

DispatchPtr kept_plan(AutogradContext& context) {
  ARGOSY_CHECK(
      !at::GradMode::is_enabled(),
      "[expert] has no second derivative; global_scatter() has");
  return torch_hooks::kept_value<DispatchPtr>(context, "plan");
}

// Dispatch and combine are each other's transpose, so the backward of one sends
// gradients the way the other sends rows. Both use the plan of the forward:
// backward exchanges no counts.
struct DispatchRows : Function<DispatchRows> {
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& tokens,
      const DispatchPtr& plan) {
    const observe::Span span(kDispatch);
    torch_hooks::keep_value(*context, "plan", plan);
    const at::Tensor sent = spread_rows(
        tokens.contiguous(), plan->slots, plan->all_to_all.num_sent());
    return send_to_experts(sent, plan->all_to_all, plan->group);
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const observe::Span span(kDispatch);
    const DispatchPtr plan = kept_plan(*context);
    const at::Tensor back =
        return_from_experts(grads[0], plan->all_to_all, plan->group);
    return {collect_rows(back, plan->slots, {}), {}};
  }
};

struct CombineRows : Function<CombineRows> {
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& rows,
      const at::Tensor& weights,
      const DispatchPtr& plan) {
    const observe::Span span(kCombine);
    torch_hooks::keep_value(*context, "plan", plan);
    const at::Tensor back =
        return_from_experts(rows, plan->all_to_all, plan->group);
    context->save_for_backward({back, weights});
    return collect_rows(back, plan->slots, weights);
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const observe::Span span(kCombine);
    const DispatchPtr plan = kept_plan(*context);
    const auto saved = context->get_saved_variables();
    const auto [grad_back, grad_weights] = collect_rows_backward(
        grads[0].contiguous(), saved[0], plan->slots, saved[1]);
    const at::Tensor grad_rows = context->needs_input_grad(0)
        ? send_to_experts(grad_back, plan->all_to_all, plan->group)
        : at::Tensor();
    return {grad_rows, grad_weights, {}};
  }
};

// The inverse of assign_pos(): for each choice its row in what this rank sends,
// which is sorted by expert.
at::Tensor slots_of(const at::Tensor& experts, const at::Tensor& counts) {
  const at::Tensor places = expert::assign_pos(experts, counts.cumsum(0));
  at::Tensor slots = at::full(experts.sizes(), -1, at::kLong);
  auto* out = slots.data_ptr<std::int64_t>();
  const auto* in = places.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < places.numel(); ++i) {
    out[in[i]] = i;
  }
  return slots;
}

std::vector<std::int64_t> to_vector(const at::Tensor& numbers) {
  const auto* data = numbers.data_ptr<std::int64_t>();
  return {data, data + numbers.numel()};
}

} // namespace

DispatchPtr plan_dispatch(
    const at::Tensor& experts,
    std::int64_t num_experts,
    const GroupPtr& group) {
  const observe::Span span(kDispatch);
  const at::Tensor counts = expert::number_count(experts, num_experts);
  // A small exchange before the rows: the receiver must know how many come.
  const at::Tensor arriving = expert::exchange_counts(counts, group);
  return std::make_shared<Dispatch>(Dispatch{
      slots_of(experts, counts),
      plan_all_to_all(to_vector(counts), to_vector(arriving), group->nranks()),
      group});
}

const std::vector<std::int64_t>& expert_rows(const Dispatch& plan) {
  return plan.all_to_all.expert_rows;
}

at::Tensor dispatch(const at::Tensor& tokens, const DispatchPtr& plan) {
  return DispatchRows::apply(tokens, plan);
}

at::Tensor combine(
    const at::Tensor& rows,
    const at::Tensor& weights,
    const DispatchPtr& plan) {
  const auto type =
      rows.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return CombineRows::apply(rows, weights.to(type).contiguous(), plan);
}

} // namespace argosy::expert
