// Paddle's state dicts, saved on one mesh and loaded on another.

#include "argosy/compat/state_dict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/dtensor/dtensor.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"

namespace argosy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::run_ranks;

const at::Tensor kWhole = torch::arange(42, torch::kFloat).reshape({6, 7});

at::Tensor placed(const ProcessMesh& mesh, const Placements& placements) {
  return shard_tensor(kWhole, mesh, placements);
}

TEST(StateDict, LoadsOnAnotherMesh) {
  const TempDir folder;
  const std::string path = folder.path().string();
  run_ranks(4, [&](World&) {
    const StateDict saved{
        {"w", placed(ProcessMesh::of_shape({2, 2}), {Shard(0), Shard(1)})},
        {"b", torch::full({3}, 5.0)}};
    EXPECT_EQ(save_state_dict(saved, path), 0);
    EXPECT_EQ(save_state_dict(saved, path), 1);
  });
  run_ranks(3, [&](World&) {
    const auto mesh = ProcessMesh::of_shape({3});
    StateDict loaded{
        {"w", shard_tensor(torch::zeros({6, 7}), mesh, {Shard(1)})},
        {"b", torch::zeros({3})},
        {"other", torch::ones({2})}};
    EXPECT_THAT(load_state_dict(loaded, path), ElementsAre("other"));
    EXPECT_TRUE(torch::equal(full_tensor(loaded["w"]), kWhole));
    EXPECT_TRUE(torch::equal(loaded["b"], torch::full({3}, 5.0)));
    EXPECT_TRUE(torch::equal(loaded["other"], torch::ones({2})));
  });
}

TEST(StateDict, OneProcessNeedsNoWorld) {
  const TempDir folder;
  const std::string path = folder.path().string();
  EXPECT_EQ(save_state_dict({{"w", kWhole}}, path, {.unique_id = 7}), 7);
  EXPECT_EQ(save_state_dict({{"w", kWhole + 1}}, path), 8);
  StateDict loaded{{"w", torch::zeros({6, 7})}};
  load_state_dict(loaded, path, {.unique_id = 7});
  EXPECT_TRUE(torch::equal(loaded["w"], kWhole));
  load_state_dict(loaded, path);
  EXPECT_TRUE(torch::equal(loaded["w"], kWhole + 1));
}

TEST(StateDict, OtherShapesAreRefused) {
  const TempDir folder;
  const std::string path = folder.path().string();
  save_state_dict({{"w", kWhole}, {"a", torch::ones({2})}}, path);
  StateDict loaded{{"w", torch::zeros({7, 6})}, {"a", torch::zeros({2})}};
  try {
    load_state_dict(loaded, path);
    FAIL();
  } catch (const CheckpointError& error) {
    EXPECT_THAT(error.what(), HasSubstr("w"));
  }
  EXPECT_TRUE(torch::equal(loaded["a"], torch::zeros({2})));
}

} // namespace
} // namespace argosy
