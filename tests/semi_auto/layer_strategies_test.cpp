// MindSpore's strategies, numbers of slices per dim, on layers of LibTorch and
// on a user's own, against the layer in one process.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "argosy/compat/shard_op.h"
#include "argosy/dtensor/dtensor.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"
#include "tests/support/refusal.h"

namespace argosy {
namespace {

using argosy::testing::refusal;
using argosy::testing::run_ranks;
using ::testing::HasSubstr;

// ---- Rules without torch ----------------------------------------------------

TEST(LayerPlacements, StatesFollowByTheirLetters) {
  const ProcessMesh mesh = ProcessMesh::of_shape({2, 4});
  const LayerRule linear{"b*k", {{"weight", "ok"}, {"bias", "o"}}};
  const auto placed = compat::place_layer(mesh, linear, {{2, 1}, {4, 1}});
  EXPECT_EQ(placed.states[0].second, (Placements{Replicate(), Shard(0)}));
  EXPECT_EQ(placed.states[1].second, (Placements{Replicate(), Shard(0)}));
  EXPECT_EQ(placed.of_input(2), (Placements{Shard(0), Replicate()}));

  const auto inputs = compat::place_layer(mesh, linear, {{2, 4}});
  EXPECT_EQ(inputs.states[0].second, (Placements{Replicate(), Shard(1)}));
  EXPECT_EQ(inputs.of_input(2), (Placements{Shard(0), Shard(1)}));
  EXPECT_EQ(inputs.of_input(4), (Placements{Shard(0), Shard(3)}));

  // A number for each dim: the sequence is sliced, too.
  const auto sequence = compat::place_layer(mesh, linear, {{2, 4, 1}});
  EXPECT_EQ(sequence.of_input(3), (Placements{Shard(0), Shard(1)}));
  EXPECT_THAT(
      refusal([&] { sequence.of_input(2); }),
      HasSubstr("an input of 2 dims, expected 3"));
}

TEST(LayerPlacements, SaysWhatDoesNotFit) {
  const ProcessMesh mesh = ProcessMesh::of_shape({2, 2});
  const LayerRule norm{"b*-", {{"weight", "-"}}};
  EXPECT_THAT(
      refusal([&] {
        compat::place_layer(mesh, norm, {{2, 2}});
      }),
      HasSubstr("2 slices of dim 1 of the input, which the layer needs whole"));
  EXPECT_THAT(
      refusal([&] {
        compat::place_layer(mesh, norm, {{2, 1}, {2}});
      }),
      HasSubstr("dim 0 of the weight"));
  EXPECT_THAT(
      refusal([&] {
        compat::place_layer(mesh, {"-b-", {}}, {{1}, {1}});
      }),
      HasSubstr("slices of the input alone"));
  const LayerRule linear{"b*k", {{"weight", "ok"}}};
  EXPECT_THAT(
      refusal([&] {
        compat::place_layer(mesh, linear, {{1, 2}, {1, 1}});
      }),
      HasSubstr("slices the same dim (k) into 2"));
}

// ---- Layers -----------------------------------------------------------------

void set_values(const torch::nn::Module& module) {
  const torch::NoGradGuard no_grad;
  int index = 0;
  for (const at::Tensor& each : module.parameters()) {
    const at::Tensor numbers = torch::arange(each.numel()) * 37 + 11 * ++index;
    each.copy_((numbers % 23 - 11).reshape(each.sizes()) / 20.0);
  }
}

at::Tensor values(std::vector<std::int64_t> shape) {
  const at::Tensor numbers = torch::arange(c10::multiply_integers(shape)) * 29;
  return (numbers % 17 - 8).reshape(shape).to(torch::kFloat) / 9;
}

using Names = std::map<std::string, Placements>;

// Runs a layer in one process and by the strategy on 2 x 2 ranks, and compares
// results and gradients. `run` calls it on an input.
template <typename Make, typename Run>
void check_layer(
    const Make& make,
    const Run& run,
    const at::Tensor& x,
    const OpStrategy& strategy,
    const Names& placements) {
  run_ranks(4, [&](World&) {
    auto plain = make();
    set_values(*plain);
    const at::Tensor input = x.clone().set_requires_grad(x.is_floating_point());
    const at::Tensor expected = run(plain, input);
    expected.pow(2).sum().backward();

    const ProcessMesh mesh = ProcessMesh::of_shape({2, 2}, {"dp", "mp"});
    auto layer = make();
    set_values(*layer);
    shard_layer_by(*layer, mesh, strategy);
    const auto states = layer->named_parameters();
    for (const auto& [name, placed] : placements) {
      EXPECT_EQ(placements_of(states[name]), placed) << name;
    }
    const at::Tensor y = run(layer, x);
    EXPECT_TRUE(torch::allclose(full_tensor(y), expected, 1e-4, 1e-5));
    y.pow(2).sum().backward();
    for (const auto& each : plain->named_parameters()) {
      EXPECT_TRUE(torch::allclose(
          full_tensor(states[each.key()].grad()),
          each.value().grad(),
          1e-4,
          1e-4))
          << each.key();
    }
  });
}

const auto kCall = [](auto& layer, const at::Tensor& x) { return layer(x); };

TEST(LayerStrategyRanks, Linear) {
  check_layer(
      [] { return torch::nn::Linear(6, 8); },
      kCall,
      values({4, 3, 6}),
      {{2, 1}, {2, 1}},
      {{"weight", {Replicate(), Shard(0)}}, {"bias", {Replicate(), Shard(0)}}});
}

TEST(LayerStrategyRanks, ConvolutionsSliceBatchChannelsAndSpace) {
  const auto make = [] {
    return torch::nn::Conv2d(torch::nn::Conv2dOptions(4, 6, 3).padding(1));
  };
  const at::Tensor x = values({4, 4, 6, 5});
  check_layer(
      make,
      kCall,
      x,
      {{2, 1, 1, 1}, {2, 1, 1, 1}},
      {{"weight", {Replicate(), Shard(0)}}, {"bias", {Replicate(), Shard(0)}}});
  check_layer(
      make,
      kCall,
      x,
      {{1, 2, 2, 1}}, // input channels and height
      {{"weight", {Shard(1), Replicate()}},
       {"bias", {Replicate(), Replicate()}}});
  check_layer(
      [] {
        return torch::nn::Conv1d(torch::nn::Conv1dOptions(4, 8, 3).groups(4));
      },
      kCall,
      values({4, 4, 7}),
      {{2, 2, 1}},
      {{"weight", {Replicate(), Shard(0)}}, {"bias", {Replicate(), Shard(0)}}});
  check_layer(
      [] { return torch::nn::ConvTranspose2d(4, 6, 3); },
      kCall,
      x,
      {{2, 1, 1, 1}, {1, 2, 1, 1}},
      {{"weight", {Replicate(), Shard(1)}}, {"bias", {Replicate(), Shard(0)}}});
}

TEST(LayerStrategyRanks, Norms) {
  check_layer(
      [] { return torch::nn::BatchNorm2d(4); },
      kCall,
      values({4, 4, 3, 3}),
      {{2, 2}},
      {{"weight", {Replicate(), Shard(0)}}, {"bias", {Replicate(), Shard(0)}}});
  check_layer(
      [] { return torch::nn::GroupNorm(2, 4); },
      kCall,
      values({4, 4, 3}),
      {{2, 2}},
      {{"weight", {Replicate(), Shard(0)}}});
  check_layer(
      [] {
        return torch::nn::LayerNorm(torch::nn::LayerNormOptions({3, 4}));
      },
      kCall,
      values({4, 2, 3, 4}),
      {{2, 2, 1, 1}}, // batch and sequence
      {{"weight", {Replicate(), Replicate()}}});
}

TEST(LayerStrategyRanks, Attention) {
  const auto attend = [](auto& layer, const at::Tensor& x) {
    return std::get<0>(layer(x, x, x));
  };
  check_layer(
      [] { return torch::nn::MultiheadAttention(8, 2); },
      attend,
      values({3, 4, 8}),
      {{1, 2, 1}, {2, 1}},
      {{"in_proj_weight", {Replicate(), Shard(0)}},
       {"in_proj_bias", {Replicate(), Shard(0)}},
       {"out_proj.weight", {Replicate(), Shard(1)}}});
}

TEST(LayerStrategyRanks, EmbeddingsSliceTheVocabulary) {
  check_layer(
      [] { return torch::nn::Embedding(8, 6); },
      kCall,
      torch::arange(12).reshape({4, 3}).remainder(8),
      {{2, 1}, {2, 1}},
      {{"weight", {Replicate(), Shard(0)}}});
}

// A layer of a user: x scaled by a vector and multiplied by a matrix that no
// module of LibTorch has.
struct ScaledImpl : torch::nn::Module {
  at::Tensor scale = register_parameter("scale", torch::ones({6}));
  at::Tensor matrix = register_parameter("matrix", torch::ones({6, 8}));

  at::Tensor forward(const at::Tensor& x) {
    return torch::matmul(x * scale, matrix);
  }
};
TORCH_MODULE(Scaled);

TEST(LayerStrategyRanks, AnyLayerByARule) {
  run_ranks(4, [](World&) {
    const ProcessMesh mesh = ProcessMesh::of_shape({2, 2});
    Scaled plain;
    set_values(*plain);
    const at::Tensor x = values({4, 3, 6});
    const at::Tensor expected = plain(x);
    Scaled layer;
    set_values(*layer);
    const auto place = shard_layer_by(
        *layer,
        mesh,
        {"b*k", {{"matrix", "kn"}, {"scale", "k"}}},
        {{2, 2}, {2, 1}});
    EXPECT_EQ(
        placements_of(layer->matrix), (Placements{Replicate(), Shard(0)}));
    EXPECT_EQ(placements_of(layer->scale), (Placements{Replicate(), Shard(0)}));
    EXPECT_EQ(placements_of(place(x)), (Placements{Shard(0), Shard(2)}));
    const at::Tensor y = layer(place(x));
    EXPECT_TRUE(torch::allclose(full_tensor(y), expected, 1e-4, 1e-5));
    EXPECT_THAT(
        refusal([&] {
          shard_layer_by(*layer, mesh, {{1, 1}});
        }),
        HasSubstr("has no rule of its own; give one"));
  });
}

} // namespace
} // namespace argosy
