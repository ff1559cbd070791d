// Meshes as values: places, sub-meshes, what is refused.

#include "argosy/mesh/process_mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <type_traits>

#include "argosy/common/error.h"

namespace argosy {
namespace {

using ::testing::ElementsAre;
using ::testing::Optional;

TEST(ProcessMesh, PlacesRanksRowByRow) {
  const ProcessMesh mesh = ProcessMesh::of_shape({2, 3}, {"dp", "mp"});
  EXPECT_EQ(mesh.rank_at({1, 2}), 5);
  EXPECT_THAT(mesh.coordinates_of(4), Optional(ElementsAre(1, 1)));
  EXPECT_EQ(mesh.coordinates_of(6), std::nullopt);
  EXPECT_EQ(mesh.get_dim_size("mp"), 3);
  EXPECT_EQ(mesh.get_dim_size(-2), 2);
  EXPECT_EQ(mesh.get_rank_by_dim_and_process_id("mp", 5), 2);
  EXPECT_EQ(mesh.get_rank_by_dim_and_process_id("mp", 6), -1);
}

TEST(ProcessMesh, TakesAnyOrderOfRanks) {
  const ProcessMesh mesh({2, 2}, {7, 3, 0, 5}, {});
  EXPECT_THAT(mesh.coordinates_of(0), Optional(ElementsAre(1, 0)));
  EXPECT_EQ(mesh.rank_at({0, 0}), 7);
  EXPECT_FALSE(mesh.contains(1));
  EXPECT_EQ(
      to_string(mesh),
      "ProcessMesh(shape=[2, 2], process_ids=[7, 3, 0, 5], "
      "dim_names=[d0, d1])");
}

TEST(ProcessMesh, HasSubMeshes) {
  const ProcessMesh mesh = ProcessMesh::of_shape({2, 2, 2}, {"dp", "sp", "mp"});
  EXPECT_THAT(mesh[1].process_ids(), ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(mesh[1].dim_names(), ElementsAre("sp", "mp"));
  EXPECT_THAT(mesh.at("mp", 1).process_ids(), ElementsAre(1, 3, 5, 7));
  EXPECT_THAT(
      mesh.get_mesh_with_dim("sp").process_ids(),
      ElementsAre(0, 1, 4, 5, 2, 3, 6, 7));
  EXPECT_EQ(mesh.get_mesh_with_dim("sp", 1), mesh.at("sp", 1));
  EXPECT_THAT(mesh[0][1][1].process_ids(), ElementsAre(3));
  EXPECT_THAT(mesh[0][1][1].shape(), ElementsAre(1));
  EXPECT_THAT(mesh.slice_through(6, {0}).process_ids(), ElementsAre(2, 6));
  EXPECT_THAT(
      mesh.slice_through(6, {0, 2}).process_ids(), ElementsAre(2, 3, 6, 7));
}

TEST(ProcessMesh, PermutesItsAxes) {
  const ProcessMesh mesh = ProcessMesh::of_shape({2, 3}, {"a", "b"});
  const ProcessMesh turned = mesh.permuted({"b", "a"});
  EXPECT_THAT(turned.process_ids(), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_EQ(turned.permuted({"a", "b"}), mesh);
}

TEST(ProcessMesh, IsEqualWhateverItsNames) {
  EXPECT_EQ(
      ProcessMesh::of_shape({2, 2}, {"a", "b"}),
      ProcessMesh::of_shape({2, 2}, {"x", "y"}));
  EXPECT_FALSE(ProcessMesh::of_shape({2, 2}) == ProcessMesh::of_shape({4}));
  EXPECT_FALSE(ProcessMesh::of_shape({2}) == ProcessMesh({2}, {1, 0}, {}));
}

TEST(ProcessMesh, RefusesWhatIsNoMesh) {
  EXPECT_THROW(ProcessMesh({2}, {1, 1}, {}), InvalidArgument);
  EXPECT_THROW(ProcessMesh({2}, {1, -1}, {}), InvalidArgument);
  EXPECT_THROW(ProcessMesh({3}, {0, 1}, {}), InvalidArgument);
  EXPECT_THROW(ProcessMesh::of_shape({2, 2}, {"a"}), InvalidArgument);
  EXPECT_THROW(ProcessMesh::of_shape({2, 2}, {"a", "a"}), InvalidArgument);
  EXPECT_THROW(ProcessMesh::of_shape({2, 0}), InvalidArgument);
  EXPECT_THROW(ProcessMesh::of_shape({}), InvalidArgument);
  EXPECT_THROW(ProcessMesh::of_shape({2}).axis_index("x"), InvalidArgument);
  EXPECT_THROW(ProcessMesh::of_shape({2}).at(0, 2), InvalidArgument);
}

// {0, 1} is a shape to some and ranks to others, so it must be said.
TEST(ProcessMesh, IsOfAShapeOrOfRanks) {
  const ProcessMesh ranks = ProcessMesh::of_ranks({2, 0}, "mp");
  EXPECT_EQ(ranks.shape(), ProcessMesh::Shape{2});
  EXPECT_EQ(ranks.process_ids(), (std::vector<int>{2, 0}));
  EXPECT_EQ(ranks.dim_names(), ProcessMesh::Names{"mp"});
  EXPECT_EQ(
      ProcessMesh::of_ranks({0, 1}),
      ProcessMesh::of_shape(ProcessMesh::Shape{2}));
  EXPECT_THROW(ProcessMesh::of_ranks({}), InvalidArgument);
  EXPECT_THROW(ProcessMesh::of_ranks({1, 1}), InvalidArgument);
  static_assert(!std::is_constructible_v<ProcessMesh, ProcessMesh::Shape>);
  static_assert(!std::is_constructible_v<
                ProcessMesh,
                ProcessMesh::Shape,
                ProcessMesh::Names>);
}

} // namespace
} // namespace argosy
