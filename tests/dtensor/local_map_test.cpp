// Functions on local parts amid DTensors, against the same on whole tensors.

#include "argosy/dtensor/local_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "argosy/mesh/rank_mesh.h"
#include "tests/dtensor/op_checks.h"
#include "tests/support/refusal.h"

namespace argosy {
namespace {

using testing::exact_values;
using ::testing::HasSubstr;
using testing::refusal;
using testing::run_ranks;
using Tensors = std::vector<at::Tensor>;

at::Tensor weighted(const Tensors& x) {
  return (x[0] * x[0]).matmul(x[1]);
}

// The gradients of the squared sum of what `function` gives.
Tensors gradients(
    const std::function<at::Tensor(const Tensors&)>& function,
    const Tensors& inputs) {
  const at::Tensor y = function(inputs);
  (y * y).sum().backward();
  Tensors found;
  for (const at::Tensor& each : inputs) {
    found.push_back(full_tensor(each.grad()));
  }
  return found;
}

// Rows of x are on different ranks: each rank has a part of the gradient of w.
// Or columns are: results are parts of a sum.
TEST(LocalMapRanks, IsDifferentiable) {
  struct Case {
    Placement x, w, y;
  };
  for (const Case& each : std::vector<Case>{
           {Shard(0), Replicate(), Shard(0)},
           {Shard(1), Shard(0), Partial()},
           {Replicate(), Shard(1), Shard(1)},
           {Replicate(), Replicate(), Replicate()}}) {
    run_ranks(2, [&](World&) {
      const ProcessMesh mesh = ProcessMesh::of_shape({2});
      const at::Tensor x = exact_values({4, 6});
      const at::Tensor w = exact_values({6, 2}, 1);
      const auto mapped = [&](const Tensors& inputs) {
        return local_map(
            weighted,
            inputs,
            {.out_placements = {Placements{each.y}},
             .in_placements = {Placements{each.x}, Placements{each.w}}});
      };
      const Tensors found = gradients(
          mapped,
          {shard_tensor(x, mesh, {each.x}).requires_grad_(),
           shard_tensor(w, mesh, {each.w}).requires_grad_()});
      const Tensors expected = gradients(
          weighted, {x.clone().requires_grad_(), w.clone().requires_grad_()});
      EXPECT_TRUE(torch::equal(found[0], expected[0])) << each.y;
      EXPECT_TRUE(torch::equal(found[1], expected[1])) << each.y;
    });
  }
}

TEST(LocalMapRanks, MovesInputsOnDemandAndTakesPlainOnes) {
  run_ranks(2, [](World&) {
    const at::Tensor value = exact_values({4, 6});
    const at::Tensor x =
        shard_tensor(value, ProcessMesh::of_shape({2}), {Shard(1)});
    LocalMapOptions options{
        .out_placements = {Placements{Shard(0)}, std::nullopt},
        .in_placements = {Placements{Shard(0)}, std::nullopt},
        .redistribute_inputs = true};
    const auto rows = [](const Tensors& in) {
      return Tensors{in[0].sum(1) + in[1], torch::full({}, in[0].size(0))};
    };
    const Tensors found = local_map(rows, {x, torch::ones({})}, options);
    EXPECT_TRUE(torch::equal(full_tensor(found[0]), value.sum(1) + 1));
    EXPECT_FALSE(is_dtensor(found[1]));
    EXPECT_EQ(found[1].item<int>(), 2);
    options.redistribute_inputs = false;
    EXPECT_THAT(
        refusal([&] {
          local_map(rows, {x, torch::ones({})}, options);
        }),
        HasSubstr("input 0 is [S(1)], expected [S(0)]"));
    EXPECT_THAT(
        refusal([&] {
          local_map(rows, {reshard(x, {Shard(0)}), x}, options);
        }),
        HasSubstr("input 1 is a DTensor, and in_placements expect a plain"));
  });
}

TEST(LocalMapRanks, UnevenPartsAndTheCurrentMesh) {
  run_ranks(2, [](World& world) {
    set_mesh(ProcessMesh::of_shape({2}));
    const at::Tensor made = local_map(
        [&](const Tensors&) { return torch::ones({2 - world.rank()}); },
        {},
        {.out_placements = {Placements{Shard(0)}}, .out_shapes = {{3}}});
    EXPECT_TRUE(torch::equal(full_tensor(made), torch::ones({3})));
  });
}

TEST(LocalMapRanks, AsksWhatItCannotKnow) {
  run_ranks(2, [](World&) {
    const at::Tensor x =
        shard_tensor(
            exact_values({4}), ProcessMesh::of_shape({2}), {Replicate()})
            .requires_grad_();
    const auto both = [](const Tensors& in) {
      return Tensors{in[0].narrow(0, 0, 2), in[0]};
    };
    LocalMapOptions options{
        .out_placements = {Placements{Shard(0)}, Placements{Replicate()}}};
    EXPECT_THAT(
        refusal([&] { local_map(both, {x}, options); }),
        HasSubstr("say in in_grad_placements"));
    options.in_grad_placements = {Placements{Replicate()}};
    EXPECT_EQ(local_map(both, {x}, options).size(), 2u);
    options.out_placements.pop_back();
    EXPECT_THAT(
        refusal([&] { local_map(both, {x}, options); }),
        HasSubstr("2 results, expected 1"));
  });
}

struct ScaleImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x, const at::Tensor& by) {
    return x * by;
  }
};
TORCH_MODULE(Scale);

TEST(LocalMapRanks, LayersRunOnLocalParts) {
  run_ranks(2, [](World&) {
    const at::Tensor value = exact_values({4, 2});
    const at::Tensor x =
        shard_tensor(value, ProcessMesh::of_shape({2}), {Shard(0)});
    LocalLayer<Scale> scale(
        Scale(), {.out_placements = {Placements{Shard(0)}}});
    EXPECT_TRUE(
        torch::equal(full_tensor(scale(x, torch::full({}, 3))), value * 3));
  });
}

} // namespace
} // namespace argosy
