#include "argosy/tensor_parallel/ops.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/zeros.h>

#include "argosy/comm/functional.h"
#include "argosy/mesh/hybrid_mesh.h"
#include "argosy/trace/recorded_call.h"

namespace argosy::tensor_parallel {

namespace {

// Rows of other ranks are zeros, so that a sum over ranks has every row once.
// Only own rows are looked up: the gradient of the table then has no rows for
// indices of other ranks.
at::Tensor rows_of_table(
    const at::Tensor& table, const at::Tensor& index, std::int64_t first) {
  const at::Tensor rows = index.reshape({-1}) - first;
  const at::Tensor places =
      rows.ge(0).logical_and_(rows.lt(table.size(0))).nonzero().squeeze(1);
  const at::Tensor found = at::embedding(table, rows.index_select(0, places));
  std::vector<std::int64_t> sizes = index.sizes().vec();
  sizes.push_back(table.size(1));
  return at::zeros({rows.size(0), table.size(1)}, table.options())
      .index_copy(0, places, found)
      .view(sizes);
}

} // namespace

at::Tensor copy_to(const at::Tensor& tensor, const GroupPtr& group) {
  return functional::c_identity(tensor, group_or_axis(group, "model"));
}

at::Tensor reduce_from(const at::Tensor& tensor, const GroupPtr& group) {
  return functional::mp_allreduce(tensor, group_or_axis(group, "model"));
}

at::Tensor scatter_to(
    const at::Tensor& tensor, const GroupPtr& group, std::int64_t dim) {
  return functional::c_split(tensor, group_or_axis(group, "model"), dim);
}

at::Tensor gather_from(
    const at::Tensor& tensor,
    const GroupPtr& group,
    std::int64_t dim,
    std::int64_t whole) {
  return functional::c_concat(
      tensor, group_or_axis(group, "model"), dim, whole);
}

at::Tensor lookup(
    const at::Tensor& table, const at::Tensor& index, std::int64_t first) {
  // One op for a recording: how many rows are found depends on the indices.
  const auto call = [first](const Tensors& in) {
    return Tensors{rows_of_table(in[0], in[1], first)};
  };
  return trace::recorded_call({table, index}, call)[0];
}

} // namespace argosy::tensor_parallel
