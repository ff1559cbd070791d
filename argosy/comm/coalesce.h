#pragma once

#include <functional>
#include <vector>

#include "argosy/comm/ops.h"

// Several tensors in one call.
namespace argosy {

// Fuses what `body` issues to the group (null: the group of all ranks).
// Consecutive collectives of the same kind, element type, root and reduction
// become one call. Messages are issued after the whole body, so that their
// order cannot deadlock. Returns a Work for each resulting call; with
// `sync_op`, all of them are done.
//
// Inside the body operations return at once, whatever their `sync_op` says. If
// the body throws, nothing is issued. Scopes of different groups may nest.
//
//   coalesce([&] {
//     for (const auto& parameter : model->parameters()) {
//       all_reduce(parameter.grad());
//     }
//   });
std::vector<WorkPtr> coalesce(
    const std::function<void()>& body,
    const GroupPtr& group = nullptr,
    bool sync_op = true);

// Collectives on several tensors. Consecutive tensors of one element type share
// a call.
std::vector<WorkPtr> all_reduce_coalesced(
    const Tensors& tensors,
    ReduceOp op = ReduceOp::SUM,
    const GroupPtr& group = nullptr,
    bool sync_op = true);
std::vector<WorkPtr> broadcast_coalesced(
    const Tensors& tensors,
    int src = 0,
    const GroupPtr& group = nullptr,
    bool sync_op = true);

} // namespace argosy
