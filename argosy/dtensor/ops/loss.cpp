// Losses of element-wise differences with a reduction. A mean over parts is
// their sum by the number of elements of the whole: right for uneven parts too.

#include <ATen/ExpandUtils.h>
#include <ATen/core/Reduction.h>
#include <ATen/core/Tensor.h>

#include "argosy/dtensor/ops/families.h"
#include "argosy/dtensor/ops/letters.h"

namespace argosy::dtensor {

namespace {

std::int64_t reduction_of(const OpCall& call) {
  return call.integer("reduction", at::Reduction::Mean);
}

std::vector<Strategy> loss_forward(const OpCall& call) {
  const Shape whole = broadcast_shape(call);
  const std::string letters = first_letters(whole.size());
  const bool reduces = reduction_of(call) != at::Reduction::None;
  return by_letters(
      call, broadcast_inputs(call, letters, whole), {reduces ? "" : letters});
}

std::vector<Shape> forward_shape(const OpCall& call) {
  return {
      reduction_of(call) == at::Reduction::None ? broadcast_shape(call)
                                                : Shape()};
}

// The gradient of the loss is a number, or one for each element.
std::vector<Strategy> loss_backward(const OpCall& call) {
  const Shape whole = broadcast_shape(call);
  const std::string letters = first_letters(whole.size());
  return by_letters(call, broadcast_inputs(call, letters, whole), {letters});
}

std::vector<Shape> backward_shape(const OpCall& call) {
  return {broadcast_shape(call)};
}

std::int64_t num_elements(const at::Tensor& self, const at::Tensor& target) {
  return numel(at::infer_size(self.sizes(), target.sizes()));
}

void run_loss(LocalCall& call) {
  const std::int64_t all = num_elements(
      call.original("self").toTensor(), call.original("target").toTensor());
  const std::int64_t own = num_elements(
      call.argument("self").toTensor(), call.argument("target").toTensor());
  const bool is_mean =
      call.argument("reduction").toInt() == at::Reduction::Mean;
  if (!is_mean || own == all) {
    call.run();
    return;
  }
  call.argument("reduction") = std::int64_t{at::Reduction::Sum};
  call.run();
  call.result() = call.result().toTensor().div(static_cast<double>(all));
}

} // namespace

void add_loss_rules(RuleTable& table) {
  table.add(
      "binary_cross_entropy binary_cross_entropy_with_logits huber_loss "
      "mse_loss smooth_l1_loss soft_margin_loss",
      {.strategies = loss_forward, .shapes = forward_shape, .run = run_loss});
  table.add(
      "binary_cross_entropy_backward huber_loss_backward mse_loss_backward "
      "smooth_l1_loss_backward soft_margin_loss_backward",
      {.strategies = loss_backward, .shapes = backward_shape, .run = run_loss});
}

} // namespace argosy::dtensor
