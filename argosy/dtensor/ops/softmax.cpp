// Softmax along a dim that may be cut. Ranks then share the maximum and the sum
// of each row; the tensor stays where it is.

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <c10/core/WrapDimMinimal.h>

#include <limits>

#include "argosy/dtensor/ops/axes.h"
#include "argosy/dtensor/ops/families.h"
#include "argosy/dtensor/ops/letters.h"

namespace argosy::dtensor {

namespace {

using comm::ReduceOp;

std::vector<Strategy> any_dim(const OpCall& call) {
  const std::string letters = first_letters(call.shape(0).size());
  return by_letters(
      call, std::vector<std::string>(call.num_inputs(), letters), {letters});
}

// One call whose dim is cut over `axes`.
class CutRows {
 public:
  CutRows(LocalCall& call, std::string_view first)
      : call_(call),
        dim_(c10::maybe_wrap_dim(
            call.argument("dim").toInt(),
            call.argument(first).toTensor().dim())),
        axes_(axes_that_cut(call, first, dim_)) {}

  bool is_cut() const { return !axes_.empty(); }

  at::Tensor sum(const at::Tensor& tensor) {
    at::Tensor sum = tensor.sum(dim_, true).contiguous();
    reduce_over(call_, axes_, sum);
    return sum;
  }

  at::Tensor maximum(const at::Tensor& tensor) {
    at::Tensor most = tensor.size(dim_) == 0
        ? least(tensor)
        : tensor.amax(dim_, true).contiguous();
    reduce_over(call_, axes_, most, ReduceOp::MAX);
    return most;
  }

 private:
  // Of an empty part.
  at::Tensor least(const at::Tensor& tensor) const {
    Shape shape = tensor.sizes().vec();
    shape[static_cast<std::size_t>(dim_)] = 1;
    return at::full(
        shape, -std::numeric_limits<double>::infinity(), tensor.options());
  }

  LocalCall& call_;
  const std::int64_t dim_;
  const std::vector<int> axes_;
};

// Sums of short floats are made in float, as the op itself does.
at::Tensor widened(const at::Tensor& tensor) {
  const bool is_short = tensor.scalar_type() == at::kHalf ||
      tensor.scalar_type() == at::kBFloat16;
  return is_short ? tensor.to(at::kFloat) : tensor;
}

at::ScalarType result_type(LocalCall& call) {
  return call.argument("half_to_float").toBool()
      ? at::kFloat
      : call.argument("self").toTensor().scalar_type();
}

template <bool is_log>
void run_softmax(LocalCall& call) {
  CutRows rows(call, "self");
  if (!rows.is_cut()) {
    call.run();
    return;
  }
  const at::Tensor self = widened(call.argument("self").toTensor());
  const at::Tensor shifted = self - rows.maximum(self);
  const at::Tensor powers = is_log ? shifted.exp() : shifted.exp_();
  const at::Tensor sum = rows.sum(powers);
  call.finish(
      (is_log ? shifted - sum.log() : powers / sum).to(result_type(call)));
}

template <bool is_log>
void run_softmax_backward(LocalCall& call) {
  CutRows rows(call, "output");
  if (!rows.is_cut()) {
    call.run();
    return;
  }
  const at::Tensor grad = widened(call.argument("grad_output").toTensor());
  const at::Tensor output = widened(call.argument("output").toTensor());
  const at::Tensor share = is_log ? grad : grad * output;
  const at::Tensor factor = is_log ? output.exp() : output;
  call.finish((share - factor * rows.sum(share))
                  .to(call.argument("input_dtype").toScalarType()));
}

} // namespace

void add_softmax_rules(RuleTable& table) {
  table.add("_softmax", {.strategies = any_dim, .run = run_softmax<false>});
  table.add("_log_softmax", {.strategies = any_dim, .run = run_softmax<true>});
  table.add(
      "_softmax_backward_data",
      {.strategies = any_dim, .run = run_softmax_backward<false>});
  table.add(
      "_log_softmax_backward_data",
      {.strategies = any_dim, .run = run_softmax_backward<true>});
}

} // namespace argosy::dtensor
