// Resharding among thread ranks: every pair of placements, on every kind of
// mesh, against the whole tensor.

#include <gtest/gtest.h>
#include <torch/types.h>

#include "argosy/common/error.h"
#include "argosy/dtensor/tensor/reshard_run.h"
#include "argosy/mesh/rank_mesh.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"
#include "tests/dtensor/all_placements.h"
#include "tests/dtensor/random_layouts.h"

namespace argosy::dtensor {
namespace {

using argosy::testing::all_placements;
using argosy::testing::run_ranks;
using comm::ReduceOp;

at::Tensor values(const Shape& shape) {
  return (torch::arange(numel(shape)) * 7 % 23 - 9)
      .to(torch::kFloat)
      .reshape(shape);
}

// A part such that the reduction of all parts is the value.
at::Tensor part_of(
    const at::Tensor& value, ReduceOp op, std::int64_t index, std::int64_t n) {
  switch (op) {
    case ReduceOp::SUM:
      return index == 0 ? value + static_cast<float>(n * (n - 1) / 2)
                        : torch::full_like(value, -static_cast<float>(index));
    case ReduceOp::MAX:
      return index == n - 1 ? value : value - static_cast<float>(index + 1);
    case ReduceOp::AVG:
      return value + static_cast<float>(2 * index - n + 1);
    default:
      return value;
  }
}

at::Tensor local_of(const at::Tensor& value, const DistAttr& attr, int rank) {
  const auto coordinates = attr.mesh.coordinates_of(rank);
  if (!coordinates) {
    return torch::empty({0});
  }
  at::Tensor local =
      block(value, local_box(value.sizes().vec(), attr, rank)).clone();
  for (std::size_t axis = 0; axis < attr.placements.size(); ++axis) {
    if (attr.placements[axis].is_partial()) {
      local = part_of(
          local,
          attr.placements[axis].op(),
          (*coordinates)[axis],
          attr.mesh.shape()[axis]);
    }
  }
  return local;
}

at::Tensor reshard_local(
    const at::Tensor& local,
    const Shape& global,
    const DistAttr& from,
    const DistAttr& to) {
  const ReshardPlan plan = plan_reshard(global, 4, from, to);
  const auto from_mesh = rank_mesh(from.mesh);
  const auto to_mesh = rank_mesh(to.mesh);
  return run_reshard(plan, global, local, *from_mesh, *to_mesh);
}

void expect_placed(
    const at::Tensor& local,
    const at::Tensor& value,
    const DistAttr& attr,
    int rank,
    const std::string& what) {
  if (!attr.mesh.contains(rank)) {
    EXPECT_EQ(local.numel(), 0) << what;
    return;
  }
  const Shape global = value.sizes().vec();
  // A value with parts is checked through what they reduce to.
  const DistAttr whole_parts{attr.mesh, gradient_placements(attr.placements)};
  const at::Tensor reduced = reshard_local(local, global, attr, whole_parts);
  const at::Tensor expected = block(value, local_box(global, attr, rank));
  EXPECT_TRUE(torch::equal(reduced, expected)) << what << "\n"
                                               << reduced << expected;
}

struct Pair {
  DistAttr from;
  DistAttr to;
};

void check_pair(const Pair& pair, const at::Tensor& value, int rank) {
  const Shape global = value.sizes().vec();
  const std::string what = argosy::str(pair.from, " to ", pair.to);
  SCOPED_TRACE(what);
  const at::Tensor local = local_of(value, pair.from, rank);
  const at::Tensor kept = local.clone();
  const at::Tensor result = reshard_local(local, global, pair.from, pair.to);
  expect_placed(result, value, pair.to, rank, what);
  EXPECT_TRUE(torch::equal(local, kept)) << what;
}

void check_all_pairs(
    const ProcessMesh& from,
    const ProcessMesh& to,
    const Shape& global,
    const std::vector<Placement>& partials) {
  const int ndim = static_cast<int>(global.size());
  int num_ranks = 0;
  for (const ProcessMesh& mesh : {from, to}) {
    for (const int rank : mesh.process_ids()) {
      num_ranks = std::max(num_ranks, rank + 1);
    }
  }
  const at::Tensor value = values(global);
  run_ranks(num_ranks, [&](World& world) {
    for (const Placements& a : all_placements(ndim, from.ndim(), partials)) {
      for (const Placements& b : all_placements(ndim, to.ndim(), partials)) {
        check_pair({{from, a}, {to, b}}, value, world.rank());
      }
    }
  });
}

const std::vector<Placement> kAllPartials{
    Partial(), Partial(ReduceOp::MAX), Partial(ReduceOp::AVG)};

TEST(ReshardRanks, OneAxis) {
  for (const int n : {1, 2, 3, 4}) {
    for (const Shape& global : {Shape{5, 3}, Shape{12, 12}, Shape{2, 1, 3}}) {
      const ProcessMesh mesh = ProcessMesh::of_shape({n});
      check_all_pairs(mesh, mesh, global, kAllPartials);
    }
  }
}

TEST(ReshardRanks, TwoAxes) {
  for (const Shape& global : {Shape{5, 3}, Shape{8, 4}, Shape{7}}) {
    const ProcessMesh mesh = ProcessMesh::of_shape({2, 2});
    check_all_pairs(mesh, mesh, global, {Partial(), Partial(ReduceOp::MAX)});
  }
}

TEST(ReshardRanks, TwoAxesInAnyOrderOfRanks) {
  const ProcessMesh mesh({2, 2}, {3, 0, 2, 1}, {});
  check_all_pairs(mesh, mesh, {5, 4}, {Partial()});
}

TEST(ReshardRanks, ThreeAxes) {
  const ProcessMesh mesh = ProcessMesh::of_shape({2, 1, 2});
  check_all_pairs(mesh, mesh, {5}, {Partial()});
}

TEST(ReshardRanks, ToAnotherShape) {
  check_all_pairs(
      ProcessMesh::of_shape({4}),
      ProcessMesh::of_shape({2, 2}),
      {5, 4},
      {Partial()});
  check_all_pairs(
      ProcessMesh::of_shape({2, 2}),
      ProcessMesh({2, 2}, {0, 2, 1, 3}, {}),
      {5, 3},
      {Partial()});
}

TEST(ReshardRanks, ToASubMeshAndBack) {
  const ProcessMesh all = ProcessMesh::of_shape({2, 2});
  for (const ProcessMesh& part :
       {all[1], all.at(1, 0), ProcessMesh::of_shape({1})}) {
    check_all_pairs(all, part, {5, 3}, {Partial()});
    check_all_pairs(part, all, {5, 3}, {Partial()});
  }
}

TEST(ReshardRanks, BetweenDisjointMeshes) {
  check_all_pairs(
      ProcessMesh::of_shape({2}),
      ProcessMesh({2}, {2, 3}, {}),
      {5, 3},
      kAllPartials);
  check_all_pairs(
      ProcessMesh::of_shape({3}), ProcessMesh({1}, {3}, {}), {4}, {Partial()});
  check_all_pairs(
      ProcessMesh::of_shape({1}),
      ProcessMesh({3}, {3, 1, 2}, {}),
      {4},
      {Partial()});
}

TEST(ReshardRanks, RandomPairsOfMeshes) {
  for (const int num_ranks : {6, 8}) {
    const at::Tensor value = values({7, 12, 5});
    run_ranks(num_ranks, [&](World& world) {
      argosy::testing::RandomLayouts random(5);
      for (int i = 0; i < 50; ++i) {
        const DistAttr from = random.attr(3, num_ranks);
        const DistAttr to = random.attr(3, num_ranks);
        check_pair({from, to}, value, world.rank());
      }
    });
  }
}

TEST(ReshardRanks, Scalars) {
  check_all_pairs(
      ProcessMesh::of_shape({2}), ProcessMesh::of_shape({2}), {}, {Partial()});
  check_all_pairs(
      ProcessMesh::of_shape({2}),
      ProcessMesh({2}, {2, 1}, {}),
      {},
      {Partial()});
}

} // namespace
} // namespace argosy::dtensor
