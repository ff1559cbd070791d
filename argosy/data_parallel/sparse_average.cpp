#include "argosy/data_parallel/sparse_average.h"

// Included first: clang 14 needs IValue complete before tensors.
#include <ATen/core/ivalue.h>

#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sparse_coo_tensor.h>
#include <ATen/ops/zeros.h>

namespace argosy::data_parallel {

namespace {

// The row indices and the rows of a gradient that is sparse in dim 0.
struct Rows {
  at::Tensor numbers;
  at::Tensor values;
};

Rows rows_of(const at::Tensor& gradient, const at::Tensor& like) {
  if (!gradient.defined()) {
    std::vector<std::int64_t> sizes = like.sizes().vec();
    sizes[0] = 0;
    return {
        at::empty({0}, like.options().dtype(at::kLong)),
        at::empty(sizes, like.options())};
  }
  const at::Tensor sum = gradient.coalesce();
  return {sum.indices().select(0, 0).contiguous(), sum.values().contiguous()};
}

std::vector<std::int64_t> counts_of_all(
    std::int64_t own, const GroupPtr& group) {
  const at::Tensor counts = at::zeros({group->nranks()}, at::kLong);
  at::Tensor mine = at::zeros({1}, at::kLong);
  mine.fill_(own);
  all_gather(counts, mine, group);
  const auto* data = counts.data_ptr<std::int64_t>();
  return {data, data + counts.numel()};
}

// Concatenates the ranks' tensors along dim 0, of which they have different
// sizes.
at::Tensor gather_rows(
    const at::Tensor& own,
    const std::vector<std::int64_t>& counts,
    const GroupPtr& group) {
  Tensors parts;
  for (const std::int64_t count : counts) {
    std::vector<std::int64_t> sizes = own.sizes().vec();
    sizes[0] = count;
    parts.push_back(at::empty(sizes, own.options()));
  }
  // An all_gather needs equal sizes; an all-to-all that sends the same rows to
  // all ranks does not.
  alltoall({.out = parts, .in = Tensors(counts.size(), own)}, group);
  return at::cat(parts);
}

} // namespace

at::Tensor average_sparse(
    const at::Tensor& gradient, const at::Tensor& like, const GroupPtr& group) {
  // Every rank takes part, also without a gradient: it sends no rows.
  const Rows own = rows_of(gradient, like.detach());
  const auto counts = counts_of_all(own.numbers.numel(), group);
  const at::Tensor numbers = gather_rows(own.numbers, counts, group);
  at::Tensor values = gather_rows(own.values, counts, group);
  values.div_(group->nranks());
  return at::sparse_coo_tensor(
             numbers.unsqueeze(0),
             values,
             like.sizes(),
             values.options().layout(at::kSparse))
      .coalesce();
}

} // namespace argosy::data_parallel
