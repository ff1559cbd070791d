#pragma once

#include <memory>

#include "argosy/comm/ops.h"
#include "argosy/expert/all_to_all_plan.h"

// What a layer of experts does around them. Not installed.
namespace argosy::expert {

struct Dispatch;
using DispatchPtr = std::shared_ptr<const Dispatch>;

// Where the choices [tokens, k] of experts go. Exchanges the counts of rows:
// all ranks of the group call it; blocks.
DispatchPtr plan_dispatch(
    const at::Tensor& experts, std::int64_t num_experts, const GroupPtr& group);

// Rows of each local expert, in its order.
const std::vector<std::int64_t>& expert_rows(const Dispatch& plan);

// From this rank's tokens [tokens, d] to the rows of its experts: one pass over
// the tokens, and one all-to-all. Has no second derivative, as combine().
at::Tensor dispatch(const at::Tensor& tokens, const DispatchPtr& plan);

// From what the experts made of their rows to the sum over the choices of each
// token, with the weights [tokens, k]: one all-to-all, and one pass.
at::Tensor combine(
    const at::Tensor& rows, const at::Tensor& weights, const DispatchPtr& plan);

} // namespace argosy::expert
