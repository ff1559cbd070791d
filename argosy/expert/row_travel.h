#pragma once

#include "argosy/comm/shards.h"

namespace argosy::expert {

struct AllToAllPlan;

// Begin to send rows to the ranks of their experts, or back, in one all-to-all;
// the result waits for the rows and returns them in order. `plan` must outlive
// it. All ranks of the group must call these alike. With `sync_op`, the rows
// have arrived when the call returns. Not installed.
comm::PendingTensor start_to_experts(
    const at::Tensor& x,
    const AllToAllPlan& plan,
    const GroupPtr& group,
    bool sync_op);
comm::PendingTensor start_from_experts(
    const at::Tensor& x,
    const AllToAllPlan& plan,
    const GroupPtr& group,
    bool sync_op);

} // namespace argosy::expert
