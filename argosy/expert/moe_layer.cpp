#include "argosy/expert/moe_layer.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full_like.h>

#include <algorithm>

#include "argosy/common/error.h"
#include "argosy/expert/dispatch.h"
#include "argosy/expert/expert_cut.h"
#include "argosy/expert/expert_seed.h"
#include "argosy/expert/overlap.h"
#include "argosy/mesh/hybrid_mesh.h"
#include "argosy/recomputation/recompute.h"
#include "argosy/tensor_parallel/ops.h"
#include "argosy/torch_hooks/graph_node.h"
#include "argosy/trace/recorded_call.h"
#include "argosy/training/loss_scale.h"
#include "argosy/training/parameter_marks.h"

namespace argosy {

namespace {

void check_groups(const Group& group, const Group& mp) {
  const auto& ranks = mp.ranks();
  const auto common = std::ranges::count_if(
      ranks, [&](int rank) { return group.get_group_rank(rank) >= 0; });
  ARGOSY_CHECK(
      common == 1,
      "[expert.moe] the groups of experts and of tensor parallelism have {} "
      "ranks in common, expected one",
      common);
}

template <typename Change>
void mark_all(const torch::nn::Module& module, const Change& change) {
  for (const at::Tensor& parameter : module.parameters()) {
    ParameterMarks marks = marks_of(parameter);
    change(marks);
    set_marks(parameter, marks);
  }
}

} // namespace

MoELayerImpl::MoELayerImpl(MoELayerOptions its_options)
    : options(std::move(its_options)),
      gate(options.gate()),
      group_(group_or_axis(options.group(), "expert")) {
  if (options.mp_group()) {
    check_groups(*group_, *options.mp_group());
  }
  if (!gate) {
    gate =
        GShardGate(
            GateOptions(options.d_model(), options.num_experts()).group(group_))
            .ptr();
  }
  register_module("gate", gate);
  ARGOSY_CHECK(
      options.overlap_chunks() >= 1,
      "[expert.moe] overlap_chunks is {}, expected 1 or more",
      options.overlap_chunks());
  ARGOSY_CHECK(
      gate->options.num_experts() == options.num_experts(),
      "[expert.moe] a gate for {} experts, expected {}",
      gate->options.num_experts(),
      options.num_experts());
  add_experts();
  mark_parameters();
}

void MoELayerImpl::add_experts() {
  const std::int64_t hidden =
      options.hidden() > 0 ? options.hidden() : 4 * options.d_model();
  if (!options.expert()) {
    grouped = register_module(
        "experts",
        GroupedExperts(
            GroupedExpertsOptions(
                options.d_model(), hidden, options.num_experts())
                .activation(options.activation())
                .group(group_)
                .mp_group(
                    options.split_experts() ? options.mp_group() : nullptr)));
    return;
  }
  const auto list =
      register_module("experts", std::make_shared<torch::nn::Module>());
  const auto own = expert::experts_of(
      options.num_experts(), {group_->nranks(), group_->rank()});
  const std::uint64_t seed = expert::draw_seed();
  for (std::int64_t i = own.begin; i < own.begin + own.size; ++i) {
    // By the global number of the expert: the values do not depend on how many
    // ranks share the experts.
    expert::with_seed(seed, i, [&] { experts.push_back(options.expert()(i)); });
    list->register_module(std::to_string(i), experts.back().module);
  }
}

void MoELayerImpl::mark_parameters() {
  const auto holder = named_children()["experts"];
  mark_all(*holder, [&](ParameterMarks& marks) {
    marks.is_expert = group_->nranks() > 1;
    marks.sequence_parallel = marks.sequence_parallel || divides_tokens();
  });
  if (divides_tokens()) {
    mark_all(
        *gate, [](ParameterMarks& marks) { marks.sequence_parallel = true; });
  }
}

// Ranks of a tensor parallel group hold the same tokens. Unless they split the
// experts, each routes its share of the tokens; else all would send the same
// rows.
bool MoELayerImpl::divides_tokens() const {
  return options.mp_group() && options.mp_group()->nranks() > 1 &&
      !options.split_experts();
}

// How many rows an expert gets depends on the tokens, so a recording takes the
// layer for one op.
at::Tensor MoELayerImpl::forward(const at::Tensor& x) {
  if (!trace::is_recording()) {
    return route(x);
  }
  Tensors used{x};
  for (const auto& states : {parameters(), buffers()}) {
    used.insert(used.end(), states.begin(), states.end());
  }
  return trace::recorded_call(
      used, [this](const Tensors& in) { return Tensors{route(in[0])}; })[0];
}

at::Tensor MoELayerImpl::route(const at::Tensor& x) {
  ARGOSY_CHECK(
      x.dim() > 0 && x.size(-1) == options.d_model(),
      "[expert.moe] the input is {}, expected [..., {}]",
      x.sizes(),
      options.d_model());
  const at::Tensor all = x.reshape({-1, options.d_model()});
  const at::Tensor tokens = divides_tokens()
      ? tensor_parallel::scatter_to(all, options.mp_group(), 0)
      : all;
  const at::Tensor y =
      with_loss(through_experts(tokens, gate->forward(tokens)));
  return (divides_tokens() ? tensor_parallel::gather_from(
                                 y, options.mp_group(), 0, all.size(0))
                           : y)
      .view(x.sizes());
}

at::Tensor MoELayerImpl::through_experts(
    const at::Tensor& tokens, const Routing& routing) {
  const Tensors parameters = named_children()["experts"]->parameters();
  const expert::ExpertsSide side{
      .num_experts = options.num_experts(),
      .group = group_,
      .learn = at::GradMode::is_enabled() &&
          std::ranges::any_of(parameters, [](const auto& each) {
                 return each.requires_grad();
               })};
  if (options.overlap_chunks() > 1) {
    return expert::overlapped_experts(
        tokens,
        routing,
        {.side = side,
         .chunks = options.overlap_chunks(),
         .parameters = parameters,
         .run = [this](const at::Tensor& rows, const auto& counts) {
           return run_experts(rows, counts);
         }});
  }
  const auto plan = expert::plan_dispatch(routing.experts, side);
  at::Tensor results =
      run_experts(expert::dispatch(tokens, plan), expert::expert_rows(*plan));
  // Backward must send the gradients of the rows for the experts of others,
  // even if this rank has none that learn.
  if (expert::any_learn(*plan) && !results.requires_grad()) {
    results = results.detach().requires_grad_();
  }
  return expert::combine(results, routing.weights, plan);
}

at::Tensor MoELayerImpl::run_experts(
    const at::Tensor& rows, const std::vector<std::int64_t>& counts) {
  if (!options.recompute()) {
    return compute(rows, counts);
  }
  return recompute(
      [this, counts](const at::Tensor& in) { return compute(in, counts); },
      rows);
}

at::Tensor MoELayerImpl::compute(
    const at::Tensor& rows, const std::vector<std::int64_t>& counts) {
  if (grouped) {
    return grouped->forward(rows, counts);
  }
  Tensors parts = rows.split_with_sizes(counts);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    parts[i] = experts[i].forward(parts[i]);
    ARGOSY_CHECK(
        parts[i].dim() == 2 && parts[i].size(0) == counts[i] &&
            parts[i].size(1) == options.d_model(),
        "[expert.moe] an expert returned {} for {} rows, expected [{}, {}]",
        parts[i].sizes(),
        counts[i],
        counts[i],
        options.d_model());
  }
  return parts.empty() ? rows : at::cat(parts);
}

// Adds the gate's loss to the backward of the output, without adding to its
// value: the caller's loss need not know of it. Its gradient must be scaled as
// the caller's loss is, hence LossScale.
at::Tensor MoELayerImpl::with_loss(const at::Tensor& y) {
  const at::Tensor loss = gate->get_loss(false);
  if (options.loss_weight() == 0 || !loss.defined()) {
    return y;
  }
  // Each rank has the loss of its share of the tokens; the gradients of the
  // gate are added up over mp_group.
  const double ranks = divides_tokens() ? options.mp_group()->nranks() : 1;
  const double weight = options.loss_weight() / ranks;
  return torch_hooks::apply(
      Tensors{y, loss},
      [](const Tensors& in) { return Tensors{in[0].detach()}; },
      [weight, loss = loss.detach()](const Tensors& grads) {
        return Tensors{
            grads[0],
            at::full_like(loss, weight * training::LossScale::current())};
      })[0];
}

at::Tensor MoELayerImpl::get_loss(bool clear) {
  const at::Tensor loss = gate->get_loss(clear);
  return loss.defined() && divides_tokens()
      ? tensor_parallel::reduce_from(
            loss / options.mp_group()->nranks(), options.mp_group())
      : loss;
}

} // namespace argosy
