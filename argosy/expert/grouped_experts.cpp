#include "argosy/expert/grouped_experts.h"

#include <ATen/core/Generator.h>
#include <ATen/ops/empty.h>

#include <cmath>
#include <numeric>

#include "argosy/comm/shards.h"
#include "argosy/common/error.h"
#include "argosy/expert/expert_cut.h"
#include "argosy/expert/expert_seed.h"
#include "argosy/expert/grouped_ffn.h"
#include "argosy/mesh/hybrid_mesh.h"
#include "argosy/optim/parts.h"
#include "argosy/tensor_parallel/initial_values.h"
#include "argosy/tensor_parallel/linear.h"
#include "argosy/tensor_parallel/ops.h"
#include "argosy/training/held_part.h"
#include "argosy/training/parameter_marks.h"

namespace argosy {

namespace {

// The parameters of one expert's linear layer [in, out], of which `dim` is
// split over a group.
struct ExpertLinear {
  std::int64_t in = 0;
  std::int64_t out = 0;
  int dim = -1;
};

// Draws this rank's slice, with the bounds of torch::nn::Linear.
void draw_linear(
    const at::Tensor& weight,
    const at::Tensor& bias,
    const ExpertLinear& linear,
    const Group& group,
    const at::Generator& generator) {
  const double bound = 1 / std::sqrt(static_cast<double>(linear.in));
  const auto fill = [&](at::Tensor& block) {
    block.uniform_(-bound, bound, generator);
  };
  weight.copy_(tensor_parallel::draw_part(
      {linear.in, linear.out, linear.dim, group}, fill));
  const bool bias_is_cut = linear.dim == 1;
  bias.copy_(tensor_parallel::draw_part(
                 {linear.out, 1, bias_is_cut ? 0 : -1, group}, fill)
                 .squeeze(1));
}

} // namespace

GroupedExpertsImpl::GroupedExpertsImpl(GroupedExpertsOptions its_options)
    : options(std::move(its_options)) {
  const GroupPtr group = group_or_axis(options.group(), "expert");
  ARGOSY_CHECK(
      options.d_model() > 0 && options.hidden() > 0 &&
          options.num_experts() > 0,
      "[expert.grouped_experts] {} experts of {} x {}, expected 1 or more",
      options.num_experts(),
      options.d_model(),
      options.hidden());
  draw(*group);
  // Norms of LAMB and LARS are those of the experts of all ranks, as in one
  // process.
  for (const at::Tensor& parameter : parameters()) {
    optim::Groups groups;
    groups.push_back(group);
    if (marks_of(parameter).is_distributed) {
      groups.push_back(options.mp_group());
    }
    optim::set_part_groups(parameter, std::move(groups));
  }
}

// Tells checkpoints which experts, and which part of their hidden features (dim
// `cut`), a parameter has.
void GroupedExpertsImpl::describe(
    const at::Tensor& parameter,
    std::int64_t first_expert,
    int cut,
    const Group& mp) const {
  dtensor::Shape whole = parameter.sizes().vec();
  dtensor::Box box = dtensor::whole(whole);
  whole[0] = options.num_experts();
  box.offset[0] = first_expert;
  if (cut >= 0) {
    whole[cut] = options.hidden();
    box.offset[cut] =
        comm::shard_range(options.hidden(), mp.nranks(), mp.rank()).begin;
  }
  training::set_held_box(parameter, std::move(whole), std::move(box));
}

void GroupedExpertsImpl::draw(const Group& group) {
  const at::NoGradGuard no_grad;
  const Group& mp = options.mp_group() ? *options.mp_group() : group;
  const bool is_cut = options.mp_group() && mp.nranks() > 1;
  const std::int64_t d = options.d_model();
  const std::int64_t hidden = is_cut
      ? comm::shard_range(options.hidden(), mp.nranks(), mp.rank()).size
      : options.hidden();
  const auto own =
      expert::experts_of(options.num_experts(), {group.nranks(), group.rank()});
  const std::int64_t n = own.size;
  const auto add = [&](const char* name, at::IntArrayRef sizes, int cut) {
    const at::Tensor whole = at::empty(sizes);
    set_marks(
        whole,
        {.is_distributed = is_cut && cut >= 0,
         .split_axis = is_cut ? cut : -1,
         .is_expert = group.nranks() > 1});
    describe(whole, own.begin, is_cut ? cut : -1, mp);
    return register_parameter(name, whole);
  };
  weight1 = add("weight1", {n, d, hidden}, 2);
  bias1 = add("bias1", {n, hidden}, 1);
  weight2 = add("weight2", {n, hidden, d}, 1);
  bias2 = add("bias2", {n, d}, -1);
  if (expert::is_gated(options.activation())) {
    weight3 = add("weight3", {n, d, hidden}, 2);
    bias3 = add("bias3", {n, hidden}, 1);
  }
  const std::uint64_t seed = expert::draw_seed();
  for (std::int64_t i = 0; i < n; ++i) {
    const at::Generator generator = expert::seeded(seed, own.begin + i);
    const ExpertLinear up{d, options.hidden(), is_cut ? 1 : -1};
    const ExpertLinear down{options.hidden(), d, is_cut ? 0 : -1};
    draw_linear(weight1[i], bias1[i], up, mp, generator);
    draw_linear(weight2[i], bias2[i], down, mp, generator);
    if (weight3.defined()) {
      draw_linear(weight3[i], bias3[i], up, mp, generator);
    }
  }
}

at::Tensor GroupedExpertsImpl::forward(
    const at::Tensor& x, const std::vector<std::int64_t>& rows) {
  const std::int64_t sum =
      std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
  ARGOSY_CHECK(
      x.dim() == 2 && x.size(0) == sum && x.size(1) == options.d_model() &&
          static_cast<std::int64_t>(rows.size()) == weight1.size(0),
      "[expert.grouped_experts] the input is {} for {} experts, expected [{}, "
      "{}] for {}",
      x.sizes(),
      rows.size(),
      sum,
      options.d_model(),
      weight1.size(0));
  const expert::GroupedWeights weights{
      weight1, bias1, weight2, bias2, weight3, bias3};
  const GroupPtr& mp = options.mp_group();
  if (!mp || mp->nranks() == 1) {
    return expert::grouped_ffn(x, weights, {rows, options.activation()});
  }
  // Every rank adds 1/n of the second bias, because the outputs are summed.
  const at::Tensor part = expert::grouped_ffn(
      tensor_parallel::copy_to(x, mp),
      weights,
      {rows, options.activation(), 1.0 / mp->nranks()});
  return tensor_parallel::sum_in_place(part, mp);
}

} // namespace argosy
