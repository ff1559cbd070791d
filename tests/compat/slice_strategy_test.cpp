// Strategies as slices per dim, without ranks.

#include "argosy/compat/slice_strategy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "argosy/common/error.h"
#include "argosy/dtensor/layout/layout.h"
#include "tests/support/refusal.h"

namespace argosy {
namespace {

using argosy::testing::refusal;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<std::string> kProduct{"mk", "kn"};

TEST(Strategy, LettersTakeAxesInTheirOrder) {
  const ProcessMesh mesh = ProcessMesh::of_shape({2, 4});
  EXPECT_THAT(
      strategy_placements(mesh, kProduct, {{2, 1}, {1, 4}}),
      ElementsAre(
          Placements{Shard(0), Replicate()},
          Placements{Replicate(), Shard(1)}));
  EXPECT_THAT(
      strategy_placements(mesh, kProduct, {{1, 4}, {4, 2}}),
      ElementsAre(
          Placements{Replicate(), Shard(1)}, Placements{Shard(1), Shard(0)}));
  EXPECT_THAT(
      strategy_placements(mesh, kProduct, {{8, 1}, {1, 1}}),
      ElementsAre(
          Placements{Shard(0), Shard(0)},
          Placements{Replicate(), Replicate()}));
}

TEST(Strategy, OfADatasetSlicesOneDimOfAnInput) {
  const ProcessMesh line = ProcessMesh::of_shape({8});
  EXPECT_THAT(
      dataset_placements(line, {{1, 1, 1, 8}, {8}, {1, 1}}),
      ElementsAre(
          Placements{Shard(3)}, Placements{Shard(0)}, Placements{Replicate()}));
  const ProcessMesh plane = ProcessMesh::of_shape({2, 4});
  EXPECT_THAT(
      dataset_placements(plane, {{1, 4}}),
      ElementsAre(Placements{Replicate(), Shard(1)}));
  EXPECT_THAT(
      dataset_placements(plane, {{1, 1}}),
      ElementsAre(Placements{Replicate(), Replicate()}));
  const auto refused = [&](const OpStrategy& strategy) {
    return refusal([&] { dataset_placements(plane, strategy); });
  };
  EXPECT_THAT(refused({{2, 4}}), HasSubstr("2 dims of input 0 are sliced"));
  EXPECT_THAT(refused({{2, 1}, {4, 1}}), HasSubstr("sliced into 4, but"));
  EXPECT_THAT(
      refused({{1, 1, 1}, {8, 1}}),
      HasSubstr("at most 2 dims, expected one of those with 3"));
}

// The first rows, or columns, that each of 8 ranks holds.
std::vector<std::int64_t> begins(
    const ProcessMesh& mesh,
    const Placements& placements,
    const dtensor::Shape& shape,
    std::size_t dim) {
  std::vector<std::int64_t> all;
  for (int rank = 0; rank < 8; ++rank) {
    all.push_back(
        dtensor::local_box(shape, {mesh, placements}, rank).offset[dim]);
  }
  return all;
}

// What MindSpore's ranks hold of a product that is cut so.
TEST(Strategy, RanksHoldWhatTheyDoInMindSpore) {
  const ProcessMesh mesh = ProcessMesh::of_shape({2, 4});
  const auto columns = strategy_placements(mesh, kProduct, {{2, 1}, {1, 4}});
  EXPECT_THAT(
      begins(mesh, columns[0], {2, 4}, 0), ElementsAre(0, 0, 0, 0, 1, 1, 1, 1));
  EXPECT_THAT(
      begins(mesh, columns[1], {4, 4}, 1), ElementsAre(0, 1, 2, 3, 0, 1, 2, 3));
  const auto sums = strategy_placements(mesh, kProduct, {{2, 4}, {4, 1}});
  EXPECT_THAT(
      begins(mesh, sums[1], {8, 4}, 0), ElementsAre(0, 2, 4, 6, 0, 2, 4, 6));
}

// The order in which several axes cut a dim is that of the mesh; another one is
// a mesh with its axes permuted.
TEST(Strategy, OuterAxesComeFirst) {
  const ProcessMesh mesh = ProcessMesh::of_shape({2, 2, 2}, {"dp", "sp", "mp"});
  const ProcessMesh permuted = mesh.permuted({"sp", "dp", "mp"});
  const Placements placements{Shard(1), Shard(1), Shard(0)};
  std::vector<int> order(4); // of ranks, by the slices of dim 1, in row 0
  for (int rank = 0; rank < 8; rank += 2) {
    const auto box = dtensor::local_box({2, 4}, {permuted, placements}, rank);
    EXPECT_EQ(box.offset[0], 0);
    order[static_cast<std::size_t>(box.offset[1])] = rank;
  }
  EXPECT_THAT(order, ElementsAre(0, 4, 2, 6));
}

TEST(Strategy, RefusesWhatDoesNotGoTogether) {
  const ProcessMesh mesh = ProcessMesh::of_shape({2, 4});
  for (const OpStrategy& wrong : std::vector<OpStrategy>{
           {{2, 1}},         // an operand is missing
           {{2, 1}, {1}},    // a dim is missing
           {{1, 2}, {4, 1}}, // k is cut in two ways
           {{3, 1}, {1, 1}}, // no axis of 3
           {{2, 4}, {4, 2}}, // nothing left for n
           {{0, 1}, {1, 1}}}) {
    EXPECT_THROW(strategy_placements(mesh, kProduct, wrong), InvalidArgument);
  }
}

} // namespace
} // namespace argosy
