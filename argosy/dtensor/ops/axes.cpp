#include "argosy/dtensor/ops/axes.h"

#include <ATen/core/Tensor.h>

#include "argosy/comm/ops.h"
#include "argosy/dtensor/tensor/mesh_state.h"
#include "argosy/mesh/rank_mesh.h"

namespace argosy::dtensor {

std::vector<int> axes_that_cut(
    const LocalCall& call,
    std::string_view argument,
    const std::function<bool(int dim)>& matters) {
  const Placements& placements = call.placements(argument);
  std::vector<int> axes;
  for (std::size_t axis = 0; axis < placements.size(); ++axis) {
    if (placements[axis].is_shard() && matters(placements[axis].dim())) {
      axes.push_back(static_cast<int>(axis));
    }
  }
  return axes;
}

std::vector<int> axes_that_cut(
    const LocalCall& call, std::string_view argument, std::int64_t dim) {
  return axes_that_cut(call, argument, [dim](int cut) { return cut == dim; });
}

void reduce_over(
    LocalCall& call,
    const std::vector<int>& axes,
    const at::Tensor& tensor,
    comm::ReduceOp op) {
  if (!axes.empty()) {
    all_reduce(tensor, op, call.mesh().ranks().group_over(axes));
  }
}

std::int64_t offset_of(
    LocalCall& call, std::string_view argument, std::int64_t dim) {
  const at::Tensor& whole = call.original(argument).toTensor();
  const Placements& placements = call.placements(argument);
  const Box box = call.mesh().local_box(whole.sizes(), placements);
  return box.offset[static_cast<std::size_t>(dim)];
}

} // namespace argosy::dtensor
