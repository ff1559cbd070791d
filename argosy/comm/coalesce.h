#pragma once

#include <functional>
#include <vector>

#include "argosy/comm/ops.h"

// Several tensors in one call.
namespace argosy {

// Carries out together what `body` issues to the group (none: that of all
// ranks): runs of one kind of collective, with the same type of elements, root
// and reduction, become one call each; messages go out after the whole body, so
// that their order cannot block. Returns a Work for each call that it took;
// with `sync_op`, they are done.
//
// Inside the body operations return at once, whatever their sync_op says. When
// it throws, nothing of it is issued. Scopes of different groups may be nested.
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

// The collectives on several tensors: one call for each type of elements that
// stand side by side.
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
