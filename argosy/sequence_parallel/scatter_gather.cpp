#include "argosy/sequence_parallel/scatter_gather.h"

#include <ATen/core/Tensor.h>

#include "argosy/comm/functional.h"
#include "argosy/mesh/hybrid_mesh.h"
#include "argosy/tensor_parallel/ops.h"

namespace argosy::sequence_parallel {

at::Tensor scatter(
    const at::Tensor& tensor, const GroupPtr& group, std::int64_t dim) {
  return tensor_parallel::scatter_to(tensor, group, dim);
}

at::Tensor gather(
    const at::Tensor& tensor,
    const GroupPtr& group,
    std::int64_t dim,
    std::int64_t whole) {
  return tensor_parallel::gather_from(tensor, group, dim, whole);
}

at::Tensor all_gather(
    const at::Tensor& tensor,
    const GroupPtr& group,
    std::int64_t dim,
    std::int64_t whole) {
  return functional::all_gather(
      tensor, group_or_axis(group, "model"), dim, whole);
}

at::Tensor reduce_scatter(
    const at::Tensor& tensor, const GroupPtr& group, std::int64_t dim) {
  return functional::reduce_scatter(
      tensor, ReduceOp::SUM, group_or_axis(group, "model"), dim);
}

} // namespace argosy::sequence_parallel
