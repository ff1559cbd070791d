#include "argosy/fleet/hybrid_step.h"

#include <ATen/ops/full.h>

#include <cmath>

#include "argosy/comm/coalesce.h"
#include "argosy/data_parallel/same_modules.h"
#include "argosy/fleet/axes.h"
#include "argosy/optim/gradients.h"
#include "argosy/training/parameter_marks.h"

namespace argosy::fleet {

namespace {

template <typename Predicate>
std::vector<at::Tensor> select(
    const std::vector<at::Tensor>& params, const Predicate& predicate) {
  std::vector<at::Tensor> result;
  for (const at::Tensor& param : params) {
    if (predicate(marks_of(param))) {
      result.push_back(param);
    }
  }
  return result;
}

// A weight that several pipeline stages share counts on the first of them;
// pipeline/shared_gradients.cpp sets the mark.
bool counts(const ParameterMarks& marks) {
  return marks.need_clip && marks.is_firstly_shared;
}

// The sum of squares of the gradients that this rank counts: those it alone
// holds, and replicated ones if it is the first rank that holds them.
double own_squares(const std::vector<at::Tensor>& params, const Axes& axes) {
  const bool is_first = axes.model->rank() == 0;
  const bool is_first_of_experts = axes.hybrid->rank_on("expert") == 0;
  return optim::squared_grad_norm(select(params, [&](const auto& marks) {
    return counts(marks) && (marks.is_distributed || is_first) &&
        (marks.is_expert || is_first_of_experts);
  }));
}

} // namespace

// The ranks of axes.model hold the same values of these parameters, but each
// sees its own slice of the tokens: their gradients are parts of a sum.
void sum_sequence_parallel_grads(
    const std::vector<at::Tensor>& params, const Axes& axes) {
  if (axes.model->nranks() == 1) {
    return;
  }
  Tensors grads;
  for (const at::Tensor& param : select(
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
    const std::vector<at::Tensor>& params, double max_norm, const Axes& axes) {
  const auto clipped =
      select(params, [](const auto& marks) { return marks.need_clip; });
  if (axes.norm->nranks() == 1) {
    return optim::clip_grad_norm_(clipped, max_norm);
  }
  // Each gradient of the model is counted by exactly one rank, so one number
  // per rank is all that is sent.
  at::Tensor squares = at::full({1}, own_squares(params, axes), at::kDouble);
  all_reduce(squares, ReduceOp::SUM, axes.norm);
  const double norm = std::sqrt(squares.item<double>());
  const double factor = optim::clip_factor(norm, max_norm);
  if (factor != 1) {
    optim::scale_grads(clipped, factor);
  }
  return norm;
}

void broadcast_replicated_params(
    const std::vector<at::Tensor>& params, const Axes& axes) {
  if (axes.model->nranks() == 1) {
    return;
  }
  data_parallel::NamedTensors whole;
  for (const at::Tensor& param : select(
           params, [](const auto& marks) { return !marks.is_distributed; })) {
    // Names serve error messages of check_same(), which is not called here.
    whole.emplace_back("", param);
  }
  data_parallel::share_values(whole, axes.model->ranks().front(), axes.model);
}

} // namespace argosy::fleet
