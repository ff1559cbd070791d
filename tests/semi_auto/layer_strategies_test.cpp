// MindSpore's strategies, numbers of slices per dim, on layers of LibTorch and
// on a user's own, against the layer in one process.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "argosy/compat/shard_op.h"
#include "argosy/dtensor/dtensor.h"
#include "argosy/dtensor/tensor/comm_debug.h"
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

// Weights lie in parts, which are gathered for the layer.
TEST(LayerStrategyRanks, RecurrentLayersSliceTheirGates) {
  using torch::nn::GRU;
  using torch::nn::GRUOptions;
  using torch::nn::LSTM;
  using torch::nn::LSTMOptions;
  using torch::nn::RNN;
  using torch::nn::RNNOptions;
  const auto first = [](auto& layer, const at::Tensor& x) {
    return std::get<0>(layer(x));
  };
  const Placements cut{Replicate(), Shard(0)};
  const Names all{
      {"weight_ih_l0", cut},
      {"weight_hh_l0", cut},
      {"bias_ih_l0", cut},
      {"bias_hh_l0", cut}};
  const at::Tensor x = values({3, 4, 6});
  check_layer([] { return LSTM(6, 5); }, first, x, {{1, 2, 1}, {2, 1}}, all);
  check_layer([] { return GRU(6, 5); }, first, x, {{1, 2, 1}, {2, 1}}, all);
  check_layer([] { return RNN(6, 5); }, first, x, {{1, 2, 1}, {2, 1}}, all);
  // The batch over all ranks.
  check_layer([] { return LSTM(6, 5); }, first, x, {{1, 4, 1}}, {});
  // More of the same.
  check_layer(
      [] {
        return LSTM(LSTMOptions(6, 5)
                        .num_layers(2)
                        .bidirectional(true)
                        .batch_first(true)
                        .proj_size(3));
      },
      first,
      x,
      {{1, 1, 1}, {4, 1}},
      {{"weight_hh_l1_reverse", {Shard(0), Shard(0)}},
       {"weight_hr_l0", {Replicate(), Replicate()}}});
  check_layer(
      [] { return GRU(GRUOptions(6, 5).bias(false).num_layers(2)); },
      first,
      x,
      {{1, 2, 1}, {2, 1}},
      {{"weight_ih_l1", cut}});
  check_layer(
      [] { return RNN(RNNOptions(6, 5).nonlinearity(torch::kReLU)); },
      first,
      x,
      {{1, 2, 1}, {2, 1}},
      all);
}

TEST(LayerStrategyRanks, RecurrentCellsSliceTheirGates) {
  const Placements cut{Replicate(), Shard(0)};
  const Names all{{"weight_ih", cut}, {"weight_hh", cut}, {"bias_ih", cut}};
  const at::Tensor x = values({4, 6});
  const OpStrategy strategy{{2, 1}, {2, 1}};
  check_layer(
      [] { return torch::nn::LSTMCell(6, 5); },
      [](auto& layer, const at::Tensor& in) { return std::get<0>(layer(in)); },
      x,
      strategy,
      all);
  check_layer([] { return torch::nn::GRUCell(6, 5); }, kCall, x, strategy, all);
  check_layer([] { return torch::nn::RNNCell(6, 5); }, kCall, x, strategy, all);
}

// Weights, gradients and states are parts; training is that of one process, and
// each forward gathers each weight once, however long the sequence.
TEST(LayerStrategyRanks, RecurrentLayersTrainInParts) {
  run_ranks(2, [](World&) {
    const ProcessMesh mesh = ProcessMesh::of_shape({2});
    torch::nn::LSTM plain(6, 4);
    torch::nn::LSTM layer(6, 4);
    set_values(*plain);
    set_values(*layer);
    shard_layer_by(*layer, mesh, {{1, 1, 1}, {2, 1}});
    torch::optim::Adam plain_adam(plain->parameters(), 0.1);
    torch::optim::Adam adam(layer->parameters(), 0.1);
    const at::Tensor x = values({9, 4, 6});
    for (int step = 0; step < 3; ++step) {
      const auto train = [&](auto& net, auto& optimizer) {
        optimizer.zero_grad();
        const at::Tensor y = std::get<0>(net(x));
        y.pow(2).mean().backward();
        optimizer.step();
      };
      train(plain, plain_adam);
      train(layer, adam);
    }
    const auto parameters = layer->named_parameters();
    for (const auto& each : plain->named_parameters()) {
      const at::Tensor& part = parameters[each.key()];
      EXPECT_TRUE(torch::allclose(full_tensor(part), each.value(), 1e-4, 1e-5))
          << each.key();
      EXPECT_EQ(to_local(part).numel(), each.value().numel() / 2);
      EXPECT_EQ(placements_of(part.grad()), Placements{Shard(0)});
      const auto& state = static_cast<torch::optim::AdamParamState&>(
          *adam.state().at(c10::guts::to_string(part.unsafeGetTensorImpl())));
      EXPECT_EQ(placements_of(state.exp_avg()), Placements{Shard(0)});
    }
    const at::Tensor placed = shard_tensor(x, mesh, {Replicate()});
    const CommDebug debug;
    layer(placed);
    EXPECT_EQ(debug.count("all_gather"), 4u);
    EXPECT_EQ(debug.entries().size(), 4u) << debug.table();
  });
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
