// Layers on a grid whose sizes do not divide by the ranks that share them,
// against those of one process: values, gradients, steps and bytes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>

#include "argosy/comm/shards.h"
#include "argosy/optim/lamb.h"
#include "argosy/sequence_parallel/ring_attention.h"
#include "argosy/tensor_parallel/grid_layers.h"
#include "argosy/tensor_parallel/nested_cuts.h"
#include "argosy/tensor_parallel/parameters.h"
#include "argosy/tensor_parallel/rng.h"
#include "argosy/testing/gtest_ranks.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"
#include "tests/support/oracle_models.h"
#include "tests/support/refusal.h"
#include "tests/tensor_parallel/grid_nets.h"
#include "tests/tensor_parallel/sent_bytes.h"

namespace argosy {
namespace {

using argosy::testing::compare;
using argosy::testing::GridNet;
using argosy::testing::MlpSizes;
using argosy::testing::numbers;
using argosy::testing::ranks_of;
using argosy::testing::run_ranks;
using argosy::testing::sent_bytes;
using argosy::testing::set_weights;
using argosy::testing::Shape;
using argosy::testing::total;
using argosy::testing::WholeNet;
namespace tp = tensor_parallel;

class UnevenGrid : public ::testing::TestWithParam<Shape> {};
INSTANTIATE_TEST_SUITE_P(
    Shapes,
    UnevenGrid,
    ::testing::Values(
        Shape{2, 2},
        Shape{3, 2},
        Shape{2, 3},
        Shape{2, 2, 1},
        Shape{4, 1, 1},
        Shape{1, 2, 2},
        Shape{2, 1, 3},
        Shape{2, 2, 2}));

// Rows, features or all do not divide; some ranks have none.
TEST_P(UnevenGrid, AsOneProcess) {
  run_ranks(ranks_of(GetParam()), [&](World&) {
    for (const MlpSizes& of :
         {MlpSizes{12, 7, 48},
          MlpSizes{12, 24, 13},
          MlpSizes{5, 24, 48},
          MlpSizes{7, 11, 17},
          MlpSizes{1, 2, 3}}) {
      for (const bool keep : {false, true}) {
        compare(of, TensorGrid(GetParam()), keep);
      }
    }
  });
}

// One grid for batches of several sizes, those that divide last.
TEST_P(UnevenGrid, BatchesOfSeveralSizes) {
  run_ranks(ranks_of(GetParam()), [&](World&) {
    const TensorGrid grid(GetParam());
    for (const long rows : {12, 5, 12, 6}) {
      compare({rows, 7, 10}, grid, false);
    }
  });
}

TEST_P(UnevenGrid, PartsAndWholes) {
  run_ranks(ranks_of(GetParam()), [&](World& world) {
    const TensorGrid grid(GetParam());
    for (const GridLayout layout : {GridLayout::Outer, GridLayout::Inner}) {
      const at::Tensor x = numbers({7, 2, 5}, 1).requires_grad_();
      const at::Tensor part = grid.part(x, layout);
      const at::Tensor sum = torch::full({1}, part.numel());
      all_reduce(sum);
      EXPECT_EQ(sum.item<long>(), x.numel()) << world.rank();
      const at::Tensor whole = grid.whole(part, layout);
      EXPECT_TRUE(torch::equal(whole, x));
      const at::Tensor weight = numbers(x.sizes(), 2);
      (whole * weight).sum().backward();
      EXPECT_TRUE(torch::equal(x.grad(), weight));
    }
  });
}

TEST_P(UnevenGrid, InitialValuesAreThoseOfOneProcess) {
  torch::manual_seed(7);
  const torch::nn::Linear first(7, 1033);
  run_ranks(ranks_of(GetParam()), [&](World&) {
    model_parallel_random_seed(7);
    const GridLinear own(GridLinearOptions(7, 1033, TensorGrid(GetParam())));
    EXPECT_TRUE(
        torch::equal(tp::full_parameter(own->weight), first->weight.detach()));
    EXPECT_TRUE(
        torch::equal(tp::full_parameter(own->bias), first->bias.detach()));
  });
}

// Norms are those of the whole parameters, of which ranks may have nothing.
TEST_P(UnevenGrid, LambStepsAsInOneProcess) {
  const MlpSizes of{5, 7, 3};
  const at::Tensor x = numbers({of.rows, of.width}, 5);
  const optim::LambOptions options(0.1);
  WholeNet whole(of);
  set_weights(*whole);
  run_ranks(1, [&](World&) {
    optim::Lamb lamb(whole->parameters(), options);
    whole(x).pow(2).sum().backward();
    lamb.step();
  });
  run_ranks(ranks_of(GetParam()), [&](World&) {
    const TensorGrid grid(GetParam());
    GridNet net(of, grid, false);
    net->to(torch::kDouble);
    WholeNet first(of);
    set_weights(*first);
    tp::load_module(*net, *first);
    optim::Lamb lamb(net->parameters(), options);
    grid.whole(net(grid.part(x))).pow(2).sum().backward();
    lamb.step();
    for (const auto& item : net->named_parameters()) {
      EXPECT_TRUE(torch::allclose(
          tp::full_parameter(item.value()),
          whole->named_parameters()[item.key()].detach(),
          1e-8,
          1e-9))
          << item.key();
    }
  });
}

TEST(UnevenGridProcesses, AsOneProcess) {
  argosy::testing::run_process_ranks(4, [](World&) {
    compare({7, 11, 17}, TensorGrid({2, 2}), false);
    compare({7, 11, 17}, TensorGrid({1, 2, 2}), false);
  });
}

// Attention with `heads` heads of 2 features between two layers; on one rank,
// and on a grid.
constexpr long kHeadSize = 2;

at::Tensor attend(const at::Tensor& joined) {
  const long heads = joined.size(2) / (3 * kHeadSize);
  const auto parts =
      joined.view({joined.size(0), joined.size(1), heads, 3, kHeadSize})
          .unbind(3);
  const auto head = [&](int i) { return parts[i].transpose(1, 2); };
  return tiled_attention(head(0), head(1), head(2), {.causal = true})
      .transpose(1, 2)
      .flatten(2);
}

struct WholeAttentionImpl : torch::nn::Module {
  explicit WholeAttentionImpl(long heads)
      : qkv(register_module(
            "qkv", torch::nn::Linear(5, 3 * heads * kHeadSize))),
        out(register_module("out", torch::nn::Linear(heads * kHeadSize, 5))) {}

  at::Tensor forward(const at::Tensor& x) { return out(attend(qkv(x))); }

  torch::nn::Linear qkv;
  torch::nn::Linear out;
};
TORCH_MODULE(WholeAttention);

struct GridAttentionImpl : torch::nn::Module {
  GridAttentionImpl(long heads, const TensorGrid& grid, bool keep_gathered)
      : qkv(register_module(
            "qkv",
            GridLinear(GridLinearOptions(5, 3 * heads * kHeadSize, grid)
                           .out_unit(3 * kHeadSize)
                           .keep_gathered(keep_gathered)))),
        out(register_module(
            "out",
            GridLinear(GridLinearOptions(heads * kHeadSize, 5, grid)
                           .input(GridLayout::Inner)
                           .in_unit(kHeadSize)
                           .keep_gathered(keep_gathered)))) {}

  at::Tensor forward(const at::Tensor& x) { return out(attend(qkv(x))); }

  GridLinear qkv;
  GridLinear out;
};
TORCH_MODULE(GridAttention);

// Heads that do not divide, and fewer than ranks.
TEST_P(UnevenGrid, HeadsStayWhole) {
  run_ranks(ranks_of(GetParam()), [&](World&) {
    for (const long heads : {1, 3, 5, 12}) {
      WholeAttention whole(heads);
      set_weights(*whole);
      for (const bool keep : {false, true}) {
        const TensorGrid grid(GetParam());
        GridAttention net(heads, grid, keep);
        compare(whole, net, grid, {5, 3, 5});
      }
    }
  });
}

TEST_P(UnevenGrid, PartsOfWholeUnits) {
  run_ranks(ranks_of(GetParam()), [&](World&) {
    const TensorGrid grid(GetParam());
    for (const GridLayout layout : {GridLayout::Outer, GridLayout::Inner}) {
      const at::Tensor x = numbers({7, 2, 15}, 1).requires_grad_();
      const at::Tensor part = grid.part(x, layout, 3);
      EXPECT_EQ(part.size(2) % 3, 0);
      const at::Tensor whole = grid.whole(part, layout, 3);
      EXPECT_TRUE(torch::equal(whole, x));
      const at::Tensor weight = numbers(x.sizes(), 2);
      (whole * weight).sum().backward();
      EXPECT_TRUE(torch::equal(x.grad(), weight));
    }
  });
}

TEST(UnevenGridRanks, SaysWhichUnitsDoNotFit) {
  run_ranks(1, [](World&) {
    const TensorGrid grid({1, 1});
    EXPECT_THAT(
        argosy::testing::refusal(
            [&] { GridLinear(GridLinearOptions(4, 10, grid).out_unit(4)); }),
        ::testing::HasSubstr("units of 4 for 10 outputs, expected a number "
                             "that divides them"));
    EXPECT_THAT(
        argosy::testing::refusal([&] {
          grid.part(torch::ones({2, 4}), GridLayout::Outer, 3);
        }),
        ::testing::HasSubstr("units of 3 for a tensor [2, 4]"));
  });
}

double ceil_div(double size, double parts) {
  return std::ceil(size / parts);
}

// What is sent is padded to the largest part; in three dimensions a product
// also sends a count of rows, once parts differ.
TEST(UnevenGridRanks, SendsPaddedParts) {
  const double rows = 7;
  const double in = 5;
  const double out = 11;
  const auto forward = [&](const Shape& shape) {
    double bytes = 0;
    run_ranks(ranks_of(shape), [&](World& world) {
      const TensorGrid grid(shape);
      GridLinear layer(GridLinearOptions(5, 11, grid).bias(false));
      const at::Tensor x = grid.part(torch::ones({7, 5}));
      CommDebug debug;
      layer(x);
      if (world.rank() == 0) {
        bytes = total(sent_bytes(debug));
      }
    });
    return bytes;
  };
  // On rank 0, which has the largest part: the input over y, the product over
  // x.
  const double in_x = ceil_div(in, 2);
  const double out_y = ceil_div(out, 2);
  EXPECT_DOUBLE_EQ(
      forward({2, 2}), 4 * rows * (ceil_div(in_x, 2) + ceil_div(out_y, 2)));
  // Rows over z, then y; the weight over z; a number over y.
  const double rows_z = ceil_div(rows, 2);
  EXPECT_DOUBLE_EQ(
      forward({2, 2, 2}),
      4 *
              (ceil_div(rows_z, 2) * in_x + ceil_div(rows_z, 2) * out_y +
               ceil_div(in_x, 2) * out_y) +
          8);
}

// Parts that ranks make by themselves.
TEST(UnevenGridRanks, TakesPartsOfDifferentSizes) {
  run_ranks(2, [](World& world) {
    const TensorGrid grid({1, 2, 1});
    grid.expect_uneven();
    GridLinear layer(GridLinearOptions(4, 4, grid));
    const at::Tensor whole = numbers({5, 4}, 3).to(torch::kFloat);
    const at::Tensor own = whole.narrow(0, world.rank() * 3, 3 - world.rank());
    const at::Tensor expected = torch::linear(
        whole,
        tp::full_parameter(layer->weight),
        tp::full_parameter(layer->bias));
    EXPECT_TRUE(torch::allclose(
        grid.whole(layer(own), GridLayout::Inner), expected, 1e-5, 1e-6));
  });
}

} // namespace
} // namespace argosy
