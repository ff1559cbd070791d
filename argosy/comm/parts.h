#pragma once

#include <cstdint>
#include <functional>

#include "argosy/comm/ops.h"

// A dim of a tensor in parts, one for each rank of a group. Where it does not
// divide, the last ranks have less, or nothing: as DTensor's Shard. Not
// installed.
namespace argosy::comm {

struct Part {
  std::int64_t begin = 0;
  std::int64_t size = 0;

  bool operator==(const Part&) const = default;
};

// Part `index` of `whole` elements in `parts`.
Part part_of(std::int64_t whole, int parts, int index);

// This rank's part of `dim`: a view.
at::Tensor own_part(
    const at::Tensor& whole, std::int64_t dim, const Group& group);

// Waits for a tensor that is on its way, and returns it. To be called once.
using Arrival = std::function<at::Tensor()>;

// The parts of all ranks side by side; `whole` is the size of `dim` then, and 0
// means that all parts have the same. With `sync_op` it has arrived already.
Arrival gather_parts(
    const at::Tensor& part,
    std::int64_t dim,
    std::int64_t whole,
    const GroupPtr& group,
    bool sync_op = true);

// This rank's part of the reduction over all ranks.
Arrival reduce_parts(
    const at::Tensor& whole,
    std::int64_t dim,
    ReduceOp op,
    const GroupPtr& group,
    bool sync_op = true);

} // namespace argosy::comm
