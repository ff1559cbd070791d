#include "argosy/sequence_parallel/layers.h"

#include <utility>

#include "argosy/mesh/hybrid_mesh.h"
#include "argosy/sequence_parallel/reduce_gradients.h"
#include "argosy/sequence_parallel/scatter_gather.h"
#include "argosy/tensor_parallel/initial_values.h"
#include "argosy/tensor_parallel/linear.h"

namespace argosy {

ColumnSequenceParallelLinearImpl::ColumnSequenceParallelLinearImpl(
    ColumnSequenceParallelLinearOptions its_options)
    : options(std::move(its_options)),
      group_(group_or_axis(options.group(), "model")) {
  reset();
}

void ColumnSequenceParallelLinearImpl::reset() {
  tensor_parallel::add_linear(*this, 0, group_);
}

at::Tensor ColumnSequenceParallelLinearImpl::forward(const at::Tensor& x) {
  return tensor_parallel::column_linear(
      x,
      weight,
      bias,
      {.group = group_,
       .cut_dim = options.sequence_dim(),
       .whole = options.sequence_length(),
       .gather_again = options.recompute_allgather()});
}

RowSequenceParallelLinearImpl::RowSequenceParallelLinearImpl(
    RowSequenceParallelLinearOptions its_options)
    : options(std::move(its_options)),
      group_(group_or_axis(options.group(), "model")) {
  reset();
}

void RowSequenceParallelLinearImpl::reset() {
  tensor_parallel::add_linear(*this, 1, group_);
  if (options.bias()) {
    // Each rank adds the bias to its part of the sequence only, so its gradient
    // is a partial sum that has to be added up over ranks.
    mark_as_sequence_parallel_parameter(bias);
  }
}

at::Tensor RowSequenceParallelLinearImpl::forward(const at::Tensor& x) {
  const at::Tensor summand = tensor_parallel::row_product(x, weight);
  const at::Tensor sum = group_->nranks() == 1
      ? summand
      : sequence_parallel::reduce_scatter(
            summand, group_, options.sequence_dim());
  return options.bias() ? sum + bias : sum;
}

} // namespace argosy
