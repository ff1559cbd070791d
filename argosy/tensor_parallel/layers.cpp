#include "argosy/tensor_parallel/layers.h"

#include <utility>

#include "argosy/comm/shards.h"
#include "argosy/common/error.h"
#include "argosy/mesh/hybrid_mesh.h"
#include "argosy/tensor_parallel/initial_values.h"
#include "argosy/tensor_parallel/linear.h"
#include "argosy/tensor_parallel/ops.h"
#include "argosy/trace/recorded_call.h"

namespace argosy {

namespace {

void check_rows(const at::Tensor& index, std::int64_t rows) {
  if (index.numel() == 0) {
    return;
  }
  const auto smallest = index.min().item<std::int64_t>();
  const auto largest = index.max().item<std::int64_t>();
  ARGOSY_CHECK(
      smallest >= 0 && largest < rows,
      "[tensor_parallel.embedding] index {} is not in [0, {})",
      smallest < 0 ? smallest : largest,
      rows);
}

} // namespace

ColumnParallelLinearImpl::ColumnParallelLinearImpl(
    ColumnParallelLinearOptions its_options)
    : options(std::move(its_options)),
      group_(group_or_axis(options.group(), "model")) {
  reset();
}

void ColumnParallelLinearImpl::reset() {
  tensor_parallel::add_linear(*this, 0, group_);
}

at::Tensor ColumnParallelLinearImpl::forward(const at::Tensor& x) {
  const at::Tensor y =
      tensor_parallel::column_linear(x, weight, bias, {.group = group_});
  return options.gather_output()
      ? tensor_parallel::gather_from(y, group_, -1, options.out_features())
      : y;
}

RowParallelLinearImpl::RowParallelLinearImpl(
    RowParallelLinearOptions its_options)
    : options(std::move(its_options)),
      group_(group_or_axis(options.group(), "model")) {
  reset();
}

void RowParallelLinearImpl::reset() {
  tensor_parallel::add_linear(*this, 1, group_);
}

at::Tensor RowParallelLinearImpl::forward(const at::Tensor& x) {
  const at::Tensor part =
      options.input_is_parallel() ? x : tensor_parallel::scatter_to(x, group_);
  const at::Tensor sum = tensor_parallel::row_linear(part, weight, group_);
  // After the sum: in each summand the bias would count once for every rank.
  return options.bias() ? sum + bias : sum;
}

VocabParallelEmbeddingImpl::VocabParallelEmbeddingImpl(
    VocabParallelEmbeddingOptions its_options)
    : options(std::move(its_options)),
      group_(group_or_axis(options.group(), "model")) {
  reset();
}

void VocabParallelEmbeddingImpl::reset() {
  const at::Generator generator = tensor_parallel::initial_generator();
  const at::Tensor part = tensor_parallel::draw_part(
      {options.num_embeddings(), options.embedding_dim(), 0, *group_},
      [&](at::Tensor& block) { block.normal_(0, 1, generator); });
  tensor_parallel::mark_cut(part, 0, options.num_embeddings(), group_);
  weight = register_parameter("weight", part);
}

std::int64_t VocabParallelEmbeddingImpl::first_row() const {
  return comm::shard_range(
             options.num_embeddings(), group_->nranks(), group_->rank())
      .begin;
}

at::Tensor VocabParallelEmbeddingImpl::forward(const at::Tensor& index) {
  const auto call = [group = group_,
                     first = first_row(),
                     rows = options.num_embeddings()](const Tensors& in) {
    check_rows(in[1], rows);
    return Tensors{tensor_parallel::sum_in_place(
        tensor_parallel::lookup(in[0], in[1], first), group)};
  };
  return trace::recorded_call({weight, index}, call)[0];
}

ParallelCrossEntropyImpl::ParallelCrossEntropyImpl(
    ParallelCrossEntropyOptions its_options)
    : options(std::move(its_options)),
      group_(group_or_axis(options.group(), "model")) {}

at::Tensor ParallelCrossEntropyImpl::forward(
    const at::Tensor& scores, const at::Tensor& target) {
  return tensor_parallel::cross_entropy(
      scores,
      target,
      group_,
      {.ignore_index = options.ignore_index(),
       .num_classes = options.num_classes()});
}

} // namespace argosy
