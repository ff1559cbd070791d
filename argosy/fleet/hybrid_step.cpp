#include "argosy/fleet/hybrid_step.h"

#include <ATen/ops/full.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "argosy/comm/coalesce.h"
#include "argosy/comm/operation/label.h"
#include "argosy/data_parallel/same_modules.h"
#include "argosy/dtensor/tensor/convert.h"
#include "argosy/fleet/axes.h"
#include "argosy/optim/gradients.h"
#include "argosy/training/parameter_marks.h"

namespace argosy::fleet {

namespace {

using Params = std::vector<at::Tensor>;

template <typename Predicate>
Params select(const Params& params, const Predicate& predicate) {
  Params result;
  for (const at::Tensor& param : params) {
    if (predicate(marks_of(param))) {
      result.push_back(param);
    }
  }
  return result;
}

// Without DTensors, whose placements say what marks say of plain parameters:
// ops on them keep copies alike and reduce gradients.
template <typename Predicate>
Params select_plain(const Params& params, const Predicate& predicate) {
  Params result = select(params, predicate);
  std::erase_if(result, is_dtensor);
  return result;
}

// A weight that several pipeline stages share counts on the first of them;
// pipeline/shared_gradients.cpp sets the mark.
bool counts(const ParameterMarks& marks) {
  return marks.need_clip && marks.is_firstly_shared;
}

// The sum of squares of the plain gradients that this rank counts: those it
// alone holds, and replicated ones if it is the first rank that holds them.
double plain_squares(const Params& params, const Axes& axes) {
  const bool is_first = axes.model->rank() == 0;
  const bool is_first_of_experts = axes.hybrid->rank_on("expert") == 0;
  return optim::squared_grad_norm(select_plain(params, [&](const auto& marks) {
    return counts(marks) && (marks.is_distributed || is_first) &&
        (marks.is_expert || is_first_of_experts);
  }));
}

// Parameters that are DTensors, by mesh, in the order of the parameters.
std::vector<std::pair<ProcessMesh, Params>> by_mesh(const Params& params) {
  std::vector<std::pair<ProcessMesh, Params>> result;
  for (const at::Tensor& param : params) {
    if (!is_dtensor(param)) {
      continue;
    }
    const ProcessMesh mesh = process_mesh_of(param);
    const auto found = std::ranges::find_if(
        result, [&](const auto& each) { return each.first == mesh; });
    if (found == result.end()) {
      result.push_back({mesh, {param}});
    } else {
      found->second.push_back(param);
    }
  }
  return result;
}

// The same for DTensors. The ranks of a mesh take the norm together, so all of
// them must come here and get the whole sum; the first of them in the norm
// group counts it.
double dtensor_squares(const Params& params, const Axes& axes) {
  const int rank = axes.hybrid->global_rank();
  double total = 0;
  for (const auto& [mesh, on_mesh] : by_mesh(select(params, counts))) {
    if (!mesh.contains(rank)) {
      continue;
    }
    const double squares = optim::squared_grad_norm(on_mesh);
    const auto first = std::ranges::find_if(
        axes.norm->ranks(),
        [&mesh = mesh](int member) { return mesh.contains(member); });
    total += *first == rank ? squares : 0;
  }
  return total;
}

} // namespace

// The ranks of axes.model hold the same values of these parameters, but each
// sees its own slice of the tokens: their gradients are parts of a sum.
void sum_sequence_parallel_grads(const Params& params, const Axes& axes) {
  if (axes.model->nranks() == 1) {
    return;
  }
  Tensors grads;
  for (const at::Tensor& param : select_plain(
           params, [](const auto& marks) { return marks.sequence_parallel; })) {
    if (param.grad().defined()) {
      grads.push_back(param.grad());
    }
  }
  if (!grads.empty()) {
    all_reduce_coalesced(grads, ReduceOp::SUM, axes.model);
  }
}

double clip_model_grad_norm(
    const Params& params, double max_norm, const Axes& axes) {
  const auto clipped =
      select(params, [](const auto& marks) { return marks.need_clip; });
  if (axes.norm->nranks() == 1) {
    return optim::clip_grad_norm_(clipped, max_norm);
  }
  // Each gradient of the model is counted by exactly one rank, so one number
  // per rank is all that is sent.
  at::Tensor squares = at::full(
      {1},
      plain_squares(params, axes) + dtensor_squares(params, axes),
      at::kDouble);
  static const OpLabel label("gradient norm");
  const LabelScope scope(label);
  all_reduce(squares, ReduceOp::SUM, axes.norm);
  const double norm = std::sqrt(squares.item<double>());
  const double factor = optim::clip_factor(norm, max_norm);
  if (factor != 1) {
    optim::scale_grads(clipped, factor);
  }
  return norm;
}

void broadcast_replicated_params(const Params& params, const Axes& axes) {
  if (axes.model->nranks() == 1) {
    return;
  }
  data_parallel::NamedTensors whole;
  for (const at::Tensor& param : select_plain(
           params, [](const auto& marks) { return !marks.is_distributed; })) {
    // Names serve error messages of check_same(), which is not called here.
    whole.emplace_back("", param);
  }
  data_parallel::share_values(whole, axes.model->ranks().front(), axes.model);
}

} // namespace argosy::fleet
