#pragma once

#include <cstdint>
#include <functional>

#include "argosy/comm/ops.h"

// A dim of a tensor cut into one shard for each rank of a group. Where it does
// not divide evenly, the last ranks have less, or nothing, as with DTensor's
// Shard. Not installed.
namespace argosy::comm {

struct ShardRange {
  std::int64_t begin = 0;
  std::int64_t size = 0;

  bool operator==(const ShardRange&) const = default;
};

// Shard `index` of `whole` elements cut into `parts`.
ShardRange shard_range(std::int64_t whole, int parts, int index);

// This rank's shard of `dim`: a view.
at::Tensor own_shard(
    const at::Tensor& whole, std::int64_t dim, const Group& group);

// Waits for the result of an operation and returns it. Call it once.
using PendingTensor = std::function<at::Tensor()>;

// Concatenates the shards of all ranks along `dim`. `whole` is the size of
// `dim` in the result; 0 means that all shards have the same size. All ranks
// must call it. With `sync_op`, the result is ready when the call returns.
PendingTensor gather_shards(
    const at::Tensor& part,
    std::int64_t dim,
    std::int64_t whole,
    const GroupPtr& group,
    bool sync_op = true);

// Reduces over all ranks and returns this rank's shard of the result.
PendingTensor reduce_shards(
    const at::Tensor& whole,
    std::int64_t dim,
    ReduceOp op,
    const GroupPtr& group,
    bool sync_op = true);

} // namespace argosy::comm
