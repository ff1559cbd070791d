#pragma once

#include <memory>

#include "argosy/comm/ops.h"
#include "argosy/expert/all_to_all_plan.h"

// Moves tokens to the experts of all ranks and back. Not installed.
namespace argosy::expert {

struct Dispatch;
using DispatchPtr = std::shared_ptr<const Dispatch>;

// Plans the moves for the chosen experts [tokens, k]. The ranks exchange counts
// of rows: all ranks of the group must call it alike; blocks.
DispatchPtr plan_dispatch(
    const at::Tensor& experts, std::int64_t num_experts, const GroupPtr& group);

// The number of rows of each local expert.
const std::vector<std::int64_t>& expert_rows(const Dispatch& plan);

// Sends this rank's tokens [tokens, d] to their experts and returns the rows of
// the local experts: one pass over the tokens and one all-to-all. Has no second
// derivative.
at::Tensor dispatch(const at::Tensor& tokens, const DispatchPtr& plan);

// Returns the experts' results to their tokens and sums the choices of each
// token, multiplied by `weights` [tokens, k]: one all-to-all and one pass. Has
// no second derivative.
at::Tensor combine(
    const at::Tensor& rows, const at::Tensor& weights, const DispatchPtr& plan);

} // namespace argosy::expert
