#include "argosy/expert/row_travel.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include "argosy/expert/all_to_all_plan.h"
#include "argosy/expert/row_kernels.h"

namespace argosy::expert {

namespace {

// `rows` are to arrive.
comm::PendingTensor start_rows(
    const at::Tensor& x,
    const RowSplits& splits,
    std::int64_t rows,
    const GroupPtr& group,
    bool sync_op) {
  if (group->nranks() == 1) {
    return [x] { return x; };
  }
  const at::Tensor received = at::empty({rows, x.size(1)}, x.options());
  const WorkPtr work = alltoall_single(received, x, splits, group, sync_op);
  return [x, received, work] { // x must live until it is sent
    work->wait();
    return received;
  };
}

} // namespace

comm::PendingTensor start_to_experts(
    const at::Tensor& x,
    const AllToAllPlan& plan,
    const GroupPtr& group,
    bool sync_op) {
  const auto rows = start_rows(
      x.contiguous(),
      {.out = plan.receives, .in = plan.sends},
      plan.num_received(),
      group,
      sync_op);
  return [rows, &plan] { return move_rows(rows(), plan.blocks, false); };
}

comm::PendingTensor start_from_experts(
    const at::Tensor& x,
    const AllToAllPlan& plan,
    const GroupPtr& group,
    bool sync_op) {
  return start_rows(
      move_rows(x.contiguous(), plan.blocks, true),
      {.out = plan.sends, .in = plan.receives},
      plan.num_sent(),
      group,
      sync_op);
}

} // namespace argosy::expert
