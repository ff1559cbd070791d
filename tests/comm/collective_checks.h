#pragma once

#include <gtest/gtest.h>
#include <torch/types.h>

#include <vector>

#include "argosy/comm/ops.h"
#include "argosy/world/world.h"

// All collectives against one process, for any group of the whole world.
namespace argosy {

// Small numbers, whose sums are exact: [r] is what rank r gives.
inline at::Tensor everybodys(
    int size, std::vector<std::int64_t> shape, c10::ScalarType type) {
  shape.insert(shape.begin(), size);
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) {
    count *= extent;
  }
  return (torch::arange(count, torch::kInt) % 5 + 1).reshape(shape).to(type);
}

// For tensors that have a part for each rank: large ones are large as a whole.
inline std::int64_t part_count(std::int64_t count, int size) {
  return count < (1 << 20) ? count : count / size;
}

inline void check_reductions(
    World& world,
    const GroupPtr& group,
    std::int64_t count,
    c10::ScalarType type) {
  const int n = world.size();
  const int rank = world.rank();
  const at::Tensor all = everybodys(n, {count}, type);
  const at::Tensor sum = all.sum(0).to(type);

  at::Tensor mine = all[rank].clone();
  all_reduce(mine, ReduceOp::SUM, group);
  EXPECT_TRUE(torch::equal(mine, sum));

  mine = all[rank].clone();
  reduce(mine, n - 1, ReduceOp::SUM, group);
  EXPECT_TRUE(torch::equal(mine, rank == n - 1 ? sum : all[rank]));

  const std::int64_t each = part_count(count, n);
  const at::Tensor wide = everybodys(n, {n, each}, type);
  const at::Tensor part_of_sum = wide.sum(0)[rank].to(type);
  at::Tensor part = torch::empty({each}, wide.options());
  reduce_scatter(part, wide[rank], ReduceOp::SUM, group);
  EXPECT_TRUE(torch::equal(part, part_of_sum));
  part.zero_();
  reduce_scatter(part, wide[rank].unbind(), ReduceOp::SUM, group);
  EXPECT_TRUE(torch::equal(part, part_of_sum));
}

inline void check_copies(
    World& world,
    const GroupPtr& group,
    std::int64_t count,
    c10::ScalarType type) {
  const int n = world.size();
  const int rank = world.rank();
  const int root = n / 2;
  const at::Tensor all = everybodys(n, {count}, type);

  at::Tensor mine = all[rank].clone();
  broadcast(mine, root, group);
  EXPECT_TRUE(torch::equal(mine, all[root]));

  at::Tensor gathered = torch::empty_like(all);
  all_gather(gathered, all[rank], group);
  EXPECT_TRUE(torch::equal(gathered, all));
  Tensors list;
  all_gather(list, all[rank], group);
  EXPECT_TRUE(torch::equal(torch::stack(list), all));

  list.clear();
  gather(all[rank], rank == root ? &list : nullptr, root, group);
  if (rank == root) {
    EXPECT_TRUE(torch::equal(torch::stack(list), all));
  }

  at::Tensor part = torch::empty({count}, all.options());
  scatter(part, rank == root ? all.unbind() : Tensors{}, root, group);
  EXPECT_TRUE(torch::equal(part, all[rank]));
  part.zero_();
  scatter(part, all.flatten(), root, group);
  EXPECT_TRUE(torch::equal(part, all[rank]));

  const std::int64_t each = part_count(count, n);
  const at::Tensor wide = everybodys(n, {n, each}, type);
  at::Tensor swapped = torch::empty({n, each}, wide.options());
  alltoall_single(swapped, wide[rank], {}, group);
  EXPECT_TRUE(torch::equal(swapped, wide.select(1, rank)));
  list.clear();
  alltoall({.out = list, .in = wide[rank].unbind()}, group);
  EXPECT_TRUE(torch::equal(torch::stack(list), wide.select(1, rank)));
}

} // namespace argosy
