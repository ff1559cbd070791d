#include "argosy/expert/dispatch.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include "argosy/common/error.h"
#include "argosy/expert/expert_cut.h"
#include "argosy/expert/routing.h"
#include "argosy/expert/row_kernels.h"
#include "argosy/expert/row_travel.h"
#include "argosy/observe/span.h"
#include "argosy/torch_hooks/kept_value.h"

namespace argosy::expert {

struct Dispatch {
  at::Tensor slots; // row of each choice in what this rank sends; -1: dropped
  AllToAllPlan all_to_all;
  GroupPtr group;
  bool any_learn = true;
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
    torch_hooks::keep_value(*context, "plan", plan);
    return TokenTravel(plan, true).start_dispatch(tokens)();
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const TokenTravel travel(kept_plan(*context), true);
    return {travel.sums(travel.start_return(grads[0])(), {}), {}};
  }
};

struct CombineRows : Function<CombineRows> {
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& rows,
      const at::Tensor& weights,
      const DispatchPtr& plan) {
    torch_hooks::keep_value(*context, "plan", plan);
    const TokenTravel travel(plan, true);
    const at::Tensor back = travel.start_return(rows)();
    context->save_for_backward({back, weights});
    return travel.sums(back, weights);
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const TokenTravel travel(kept_plan(*context), true);
    const auto saved = context->get_saved_variables();
    const auto [grad_back, grad_weights] =
        travel.sums_backward(grads[0], saved[0], saved[1]);
    const at::Tensor grad_rows = context->needs_input_grad(0)
        ? travel.start_gradients(grad_back)()
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

// What the ranks tell each other before rows travel: whether a rank's experts
// need gradients, and how many rows of each chunk come for each expert.
struct Notice {
  bool any_learn = true;
  at::Tensor counts; // [rank, chunk, local expert]
};

// `counts` are those of each chunk, by expert. A message to a rank is
// [learn, chunk 0, chunk 1, ...], with the counts of that rank's experts.
Notice exchange_notices(const Tensors& counts, const ExpertsSide& side) {
  const auto chunks = static_cast<std::int64_t>(counts.size());
  const int ranks = side.group->nranks();
  Tensors messages;
  RowSplits sizes;
  const std::int64_t own =
      experts_of(side.num_experts, {ranks, side.group->rank()}).size;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto theirs = experts_of(side.num_experts, {ranks, rank});
    messages.push_back(at::full({1}, side.learn ? 1 : 0, at::kLong));
    for (const at::Tensor& of_chunk : counts) {
      messages.push_back(of_chunk.narrow(0, theirs.begin, theirs.size));
    }
    sizes.in.push_back(1 + chunks * theirs.size);
    sizes.out.push_back(1 + chunks * own);
  }
  at::Tensor arrived = at::cat(messages);
  if (ranks > 1) {
    const at::Tensor sent = arrived;
    arrived = at::empty({ranks * (1 + chunks * own)}, at::kLong);
    alltoall_single(arrived, sent, sizes, side.group);
  }
  const at::Tensor by_rank = arrived.view({ranks, 1 + chunks * own});
  return {
      by_rank.select(1, 0).any().item<bool>(),
      by_rank.narrow(1, 1, chunks * own).reshape({ranks, chunks, own})};
}

} // namespace

std::vector<DispatchPtr> plan_chunks(
    const at::Tensor& experts, const ExpertsSide& side, int chunks) {
  const observe::Span span(kDispatch);
  Tensors chosen;
  Tensors counts;
  for (int i = 0; i < chunks; ++i) {
    const auto range = comm::shard_range(experts.size(0), chunks, i);
    chosen.push_back(experts.narrow(0, range.begin, range.size).contiguous());
    counts.push_back(number_count(chosen.back(), side.num_experts));
  }
  // A small exchange before the rows: the receiver must know how many come.
  const Notice notice = exchange_notices(counts, side);
  std::vector<DispatchPtr> plans;
  for (int i = 0; i < chunks; ++i) {
    const auto place = static_cast<std::size_t>(i);
    plans.push_back(std::make_shared<Dispatch>(Dispatch{
        slots_of(chosen[place], counts[place]),
        plan_all_to_all(
            to_vector(counts[place]),
            to_vector(notice.counts.select(1, i).contiguous()),
            {side.group->nranks(), side.group->rank()}),
        side.group,
        notice.any_learn}));
  }
  return plans;
}

DispatchPtr plan_dispatch(const at::Tensor& experts, const ExpertsSide& side) {
  return plan_chunks(experts, side, 1).front();
}

bool any_learn(const Dispatch& plan) {
  return plan.any_learn;
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
  return CombineRows::apply(
      rows, weights_for(rows.scalar_type(), weights), plan);
}

at::Tensor weights_for(at::ScalarType type, const at::Tensor& weights) {
  return weights.to(type == at::kDouble ? at::kDouble : at::kFloat)
      .contiguous();
}

namespace {

// Names of the spans in traces, in forward and backward.
comm::PendingTensor traced(const char* name, comm::PendingTensor wait) {
  return [name, wait = std::move(wait)] {
    const observe::Span span(name);
    return wait();
  };
}

} // namespace

const std::vector<std::int64_t>& TokenTravel::expert_rows() const {
  return plan_->all_to_all.expert_rows;
}

comm::PendingTensor TokenTravel::start_dispatch(
    const at::Tensor& tokens) const {
  const observe::Span span(kDispatch);
  const at::Tensor sent = spread_rows(
      tokens.contiguous(), plan_->slots, plan_->all_to_all.num_sent());
  return traced(
      kDispatch,
      start_to_experts(sent, plan_->all_to_all, plan_->group, sync_op_));
}

comm::PendingTensor TokenTravel::start_return(const at::Tensor& rows) const {
  const observe::Span span(kCombine);
  return traced(
      kCombine,
      start_from_experts(rows, plan_->all_to_all, plan_->group, sync_op_));
}

at::Tensor TokenTravel::sums(
    const at::Tensor& returned, const at::Tensor& weights) const {
  const observe::Span span(kCombine);
  return collect_rows(returned, plan_->slots, weights);
}

std::pair<at::Tensor, at::Tensor> TokenTravel::sums_backward(
    const at::Tensor& gradient,
    const at::Tensor& returned,
    const at::Tensor& weights) const {
  const observe::Span span(kCombine);
  return collect_rows_backward(
      gradient.contiguous(), returned, plan_->slots, weights);
}

comm::PendingTensor TokenTravel::start_gradients(
    const at::Tensor& gradient) const {
  const observe::Span span(kDispatch);
  return traced(
      kDispatch,
      start_to_experts(gradient, plan_->all_to_all, plan_->group, sync_op_));
}

} // namespace argosy::expert
