// Ops on lists of tensors, each of which has its own placement.

#include <gtest/gtest.h>
#include <torch/types.h>

#include "argosy/comm/group.h"
#include "argosy/comm/traffic.h"
#include "tests/dtensor/op_checks.h"

namespace argosy {
namespace {

using argosy::testing::exact_values;
using argosy::testing::run_ranks;
using argosy::testing::same;
using argosy::testing::Tensors;

const std::vector<Placements> kPlaces{
    {Shard(0)}, {Shard(1)}, {Replicate()}, {Shard(0)}};

Tensors values(int seed) {
  return {
      exact_values({5, 3}, seed),
      exact_values({2, 4}, seed + 1),
      exact_values({3}, seed + 2),
      exact_values({1, 2}, seed + 3)};
}

Tensors sharded(const Tensors& plain) {
  Tensors list;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    list.push_back(
        shard_tensor(plain[i], ProcessMesh::of_shape({2}), kPlaces[i]));
  }
  return list;
}

void expect_equal(const Tensors& list, const Tensors& plain) {
  ASSERT_EQ(list.size(), plain.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    EXPECT_EQ(placements_of(list[i]), kPlaces[i]) << i;
    EXPECT_TRUE(same(full_tensor(list[i]), plain[i])) << i;
  }
}

TEST(ForeachRanks, EachKeepsItsPlacement) {
  run_ranks(2, [](World&) {
    const Tensors a = values(0);
    const Tensors b = values(7);
    const Tensors list = sharded(a);
    const Tensors sums = at::_foreach_add(list, sharded(b), 2);
    const Tensors plain_sums = at::_foreach_add(a, b, 2);
    EXPECT_EQ(get_group(0)->traffic().total().calls, 0u);
    expect_equal(sums, plain_sums);
    expect_equal(at::_foreach_mul(list, b), at::_foreach_mul(a, b));
    expect_equal(at::_foreach_exp(list), at::_foreach_exp(a));
  });
}

TEST(ForeachRanks, InPlace) {
  run_ranks(2, [](World&) {
    const Tensors a = values(0);
    const Tensors b = values(7);
    const Tensors list = sharded(a);
    at::_foreach_addcmul_(list, sharded(b), sharded(b), 3);
    at::_foreach_sqrt_(at::_foreach_abs(list));
    at::_foreach_zero_(sharded(b));
    at::_foreach_addcmul_(a, b, b, 3);
    EXPECT_EQ(get_group(0)->traffic().total().calls, 0u);
    expect_equal(list, a);
  });
}

} // namespace
} // namespace argosy
