#include "argosy/comm/shards.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <vector>

#include "argosy/common/error.h"

namespace argosy::comm {

namespace {

using Sizes = std::vector<std::int64_t>;

void check_dim(const at::Tensor& tensor, std::int64_t dim) {
  ARGOSY_CHECK(
      dim >= -tensor.dim() && dim < tensor.dim(),
      "[comm.parts] dim {} of a tensor {}",
      dim,
      tensor.sizes());
}

std::int64_t largest(std::int64_t whole, int parts) {
  return shard_range(whole, parts, 0).size;
}

// Sizes with another one for `dim`.
Sizes resized(
    const at::Tensor& tensor, std::int64_t dim, std::int64_t dim_size) {
  Sizes sizes = tensor.sizes().vec();
  sizes[static_cast<std::size_t>(dim)] = dim_size;
  return sizes;
}

// Filled up with zeros: collectives take buffers of one size.
at::Tensor padded(
    const at::Tensor& tensor, std::int64_t dim, std::int64_t dim_size) {
  if (tensor.size(dim) == dim_size) {
    return tensor.contiguous();
  }
  at::Tensor out = at::zeros(resized(tensor, dim, dim_size), tensor.options());
  out.narrow(dim, 0, tensor.size(dim)).copy_(tensor);
  return out;
}

// Without what was filled up, and no view, so that it may be changed in place.
at::Tensor trimmed(
    const at::Tensor& tensor, std::int64_t dim, std::int64_t dim_size) {
  return tensor.size(dim) == dim_size
      ? tensor
      : tensor.narrow(dim, 0, dim_size).contiguous().detach();
}

// Of what holds `count` parts one after the other in memory: along dim 0 that
// is the whole, else they get a dim of their own.
Sizes stacked(const at::Tensor& part, std::int64_t dim, int count) {
  if (dim == 0) {
    return resized(part, 0, part.size(0) * count);
  }
  Sizes sizes = part.sizes().vec();
  sizes.insert(sizes.begin(), count);
  return sizes;
}

// Collectives exchange parts that are contiguous in memory. Along dim 0 such
// parts form the whole as they lie; along other dims they must be interleaved,
// which costs a copy: unstacked() after a gather, restacked() before a reduce.
at::Tensor unstacked(
    const at::Tensor& parts, std::int64_t dim, std::int64_t whole) {
  if (dim == 0) { // only the last parts are filled up
    return trimmed(parts, 0, whole);
  }
  const int count = static_cast<int>(parts.size(0));
  std::vector<at::Tensor> blocks;
  for (int i = 0; i < count; ++i) {
    blocks.push_back(
        parts[i].narrow(dim, 0, shard_range(whole, count, i).size));
  }
  return at::cat(blocks, dim);
}

at::Tensor restacked(const at::Tensor& whole, std::int64_t dim, int count) {
  const std::int64_t size = largest(whole.size(dim), count);
  if (dim == 0) {
    return padded(whole, 0, size * count);
  }
  const Sizes sizes = stacked(whole.narrow(dim, 0, size), dim, count);
  at::Tensor out = size * count == whole.size(dim)
      ? at::empty(sizes, whole.options())
      : at::zeros(sizes, whole.options());
  for (int i = 0; i < count; ++i) {
    const ShardRange part = shard_range(whole.size(dim), count, i);
    out[i]
        .narrow(dim, 0, part.size)
        .copy_(whole.narrow(dim, part.begin, part.size));
  }
  return out;
}

} // namespace

ShardRange shard_range(std::int64_t whole, int parts, int index) {
  const std::int64_t size = (whole + parts - 1) / parts;
  const std::int64_t begin = std::min(whole, size * index);
  return {begin, std::min(size, whole - begin)};
}

at::Tensor own_shard(
    const at::Tensor& whole, std::int64_t dim, const Group& group) {
  check_dim(whole, dim);
  const ShardRange part =
      shard_range(whole.size(dim), group.nranks(), group.rank());
  return whole.narrow(dim, part.begin, part.size);
}

PendingTensor gather_shards(
    const at::Tensor& part,
    std::int64_t dim,
    std::int64_t whole,
    const GroupPtr& group,
    bool sync_op) {
  check_dim(part, dim);
  const std::int64_t along = dim < 0 ? dim + part.dim() : dim;
  const int count = group->nranks();
  const std::int64_t size = whole == 0 ? part.size(along) * count : whole;
  ARGOSY_CHECK(
      part.size(along) == shard_range(size, count, group->rank()).size,
      "[comm.parts] rank {} of {} has {} of {} in dim {}, expected {}",
      group->rank(),
      count,
      part.size(along),
      size,
      dim,
      shard_range(size, count, group->rank()).size);
  const at::Tensor in = padded(part, along, largest(size, count));
  const at::Tensor out = at::empty(stacked(in, along, count), in.options());
  const WorkPtr work = all_gather(out, in, group, sync_op);
  return [=] {
    work->wait();
    return unstacked(out, along, size);
  };
}

PendingTensor reduce_shards(
    const at::Tensor& whole,
    std::int64_t dim,
    ReduceOp op,
    const GroupPtr& group,
    bool sync_op) {
  check_dim(whole, dim);
  const std::int64_t along = dim < 0 ? dim + whole.dim() : dim;
  const int count = group->nranks();
  const ShardRange own = shard_range(whole.size(along), count, group->rank());
  const at::Tensor in = restacked(whole, along, count);
  const at::Tensor out = at::empty(
      resized(whole, along, largest(whole.size(along), count)),
      whole.options());
  const WorkPtr work = reduce_scatter(out, in, op, group, sync_op);
  return [=] {
    work->wait();
    return trimmed(out, along, own.size);
  };
}

} // namespace argosy::comm
