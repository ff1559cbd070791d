// Layers on a grid of ranks against those of one process: values, bytes and
// memory.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>
#include <string>

#include "argosy/common/error.h"
#include "argosy/observe/tensor_memory.h"
#include "argosy/optim/autocast.h"
#include "argosy/tensor_parallel/grid_layers.h"
#include "argosy/tensor_parallel/layers.h"
#include "argosy/tensor_parallel/nested_cuts.h"
#include "argosy/tensor_parallel/parameters.h"
#include "argosy/tensor_parallel/rng.h"
#include "argosy/testing/gtest_ranks.h"
#include "argosy/testing/ranks.h"
#include "argosy/training/parameter_marks.h"
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
using ::testing::HasSubstr;
namespace tp = tensor_parallel;

constexpr MlpSizes kMlp{.rows = 12, .width = 24, .hidden = 48};

void check_mlp(const TensorGrid& grid, bool keep_gathered) {
  WholeNet whole(kMlp);
  set_weights(*whole);
  GridNet net(kMlp, grid, keep_gathered);
  compare(whole, net, grid, {kMlp.rows, 3, kMlp.width});
  const auto expected = whole->named_parameters();
  for (const auto& item : net->named_parameters()) {
    // No two ranks hold the same: weights take 1/n, and norms add up.
    EXPECT_EQ(
        item.value().numel() * get_group()->nranks(),
        expected[item.key()].numel());
    EXPECT_EQ(marks_of(item.value()).is_distributed, get_group()->nranks() > 1);
  }
}

class GridShapes : public ::testing::TestWithParam<Shape> {};
INSTANTIATE_TEST_SUITE_P(
    Grid,
    GridShapes,
    ::testing::Values(
        Shape{1, 1},
        Shape{2, 2},
        Shape{1, 2},
        Shape{2, 1},
        Shape{3, 2},
        Shape{2, 3},
        Shape{2, 2, 1},
        Shape{1, 1, 2},
        Shape{1, 2, 2},
        Shape{2, 1, 3},
        Shape{2, 2, 2}));

TEST_P(GridShapes, AsOneProcess) {
  run_ranks(ranks_of(GetParam()), [&](World&) {
    const TensorGrid grid(GetParam());
    check_mlp(grid, false);
    check_mlp(grid, true);
  });
}

TEST_P(GridShapes, PartsAndWholes) {
  run_ranks(ranks_of(GetParam()), [&](World& world) {
    const TensorGrid grid(GetParam());
    for (const GridLayout layout : {GridLayout::Outer, GridLayout::Inner}) {
      const at::Tensor x = numbers({12, 2, 12}, 1).requires_grad_();
      const at::Tensor part = grid.part(x, layout);
      EXPECT_EQ(part.numel() * world.size(), x.numel());
      const at::Tensor whole = grid.whole(part, layout);
      EXPECT_TRUE(torch::equal(whole, x));
      const at::Tensor weight = numbers(x.sizes(), 2);
      (whole * weight).sum().backward();
      EXPECT_TRUE(torch::equal(x.grad(), weight));
    }
  });
}

TEST_P(GridShapes, InitialValuesAreThoseOfOneProcess) {
  torch::manual_seed(7);
  const torch::nn::Linear first(24, 1224);
  const torch::nn::Linear second(1224, 24);
  run_ranks(ranks_of(GetParam()), [&](World&) {
    model_parallel_random_seed(7);
    const TensorGrid grid(GetParam());
    const GridLinear own(GridLinearOptions(24, 1224, grid));
    const GridLinear next(
        GridLinearOptions(1224, 24, grid).input(GridLayout::Inner));
    const auto same = [](const at::Tensor& part, const at::Tensor& whole) {
      EXPECT_TRUE(torch::equal(tp::full_parameter(part), whole.detach()));
    };
    same(own->weight, first->weight);
    same(own->bias, first->bias);
    same(next->weight, second->weight);
    same(next->bias, second->bias);
  });
}

TEST(GridProcesses, AsOneProcess) {
  argosy::testing::run_process_ranks(4, [](World&) {
    {
      const optim::AutoCast autocast;
      const TensorGrid grid({2, 2});
      GridLinear layer(GridLinearOptions(8, 8, grid));
      const at::Tensor y = layer(grid.part(torch::ones({4, 8})));
      EXPECT_EQ(y.scalar_type(), torch::kBFloat16);
    }
    check_mlp(TensorGrid({2, 2}), false);
    check_mlp(TensorGrid({1, 2, 2}), false);
  });
}

// The numbers of the pair (rows, h) (h, e) (e, h) that a rank sends.
struct Pair {
  double rows;
  double h;
  double e;

  double forward_1d(double n) const { return 2 * (n - 1) / n * rows * h; }

  double activations(const Shape& of) const {
    const auto x = static_cast<double>(of[0]);
    const auto y = static_cast<double>(of[1]);
    return rows * (e * (x - 1) + h * (y - 1)) / ranks_of(of);
  }

  double weight(const Shape& of) const {
    const double z = of.size() == 3 ? static_cast<double>(of[2]) : 1;
    return h * e * (z - 1) / ranks_of(of);
  }

  double forward(const Shape& of) const {
    return 2 * (activations(of) + weight(of));
  }

  // The gradients go as the values came. Unless it was kept, each layer's input
  // and weight is gathered again.
  double backward(const Shape& of, bool keep) const {
    return forward(of) + (keep ? 0 : activations(of) + 2 * weight(of));
  }
};

// The formulas of MindSpore's high-dimension tensor parallelism.
TEST_P(GridShapes, SendsWhatTheFormulasSay) {
  const Shape shape = GetParam();
  const Pair pair{.rows = 24, .h = 24, .e = 48};
  run_ranks(ranks_of(shape), [&](World&) {
    const TensorGrid grid(shape);
    for (const bool keep : {false, true}) {
      GridLinear up(
          GridLinearOptions(24, 48, grid).bias(false).keep_gathered(keep));
      GridLinear down(GridLinearOptions(48, 24, grid)
                          .bias(false)
                          .input(GridLayout::Inner)
                          .keep_gathered(keep));
      const at::Tensor x =
          grid.part(torch::ones({12, 2, 24})).detach().clone().requires_grad_();
      CommDebug debug;
      const at::Tensor y = down(up(x));
      EXPECT_DOUBLE_EQ(total(sent_bytes(debug)), 4 * pair.forward(shape));
      debug.clear();
      y.sum().backward();
      EXPECT_DOUBLE_EQ(
          total(sent_bytes(debug)), 4 * pair.backward(shape, keep));
      EXPECT_EQ(sent_bytes(debug).count("all_reduce"), 0u);
    }
  });
}

// From 8 ranks on a grid sends less than one dimension, and how much less
// depends on its shape; on 4 ranks it sends more.
TEST(GridRanks, SendsLessThanOneDimensionFromEightRanksOn) {
  const Pair pair{.rows = 64, .h = 8, .e = 24};
  const auto on_line = [&](int n) {
    double bytes = 0;
    run_ranks(n, [&](World& world) {
      ColumnParallelLinear up(
          ColumnParallelLinearOptions(8, 24).gather_output(false));
      RowParallelLinear down(
          RowParallelLinearOptions(24, 8).input_is_parallel(true));
      CommDebug debug;
      down(up(torch::ones({64, 8})));
      if (world.rank() == 0) {
        bytes = total(sent_bytes(debug));
      }
    });
    return bytes;
  };
  const auto on_grid = [&](const Shape& shape) {
    double bytes = 0;
    run_ranks(ranks_of(shape), [&](World& world) {
      const TensorGrid grid(shape);
      GridLinear up(GridLinearOptions(8, 24, grid).bias(false));
      GridLinear down(
          GridLinearOptions(24, 8, grid).bias(false).input(GridLayout::Inner));
      const at::Tensor x = grid.part(torch::ones({64, 8}));
      CommDebug debug;
      down(up(x));
      if (world.rank() == 0) {
        bytes = total(sent_bytes(debug));
      }
    });
    return bytes;
  };
  EXPECT_DOUBLE_EQ(on_line(8), 4 * pair.forward_1d(8));
  EXPECT_LT(on_grid({2, 4}), on_line(8));
  EXPECT_LT(on_grid({2, 2, 2}), on_grid({2, 4}));
  EXPECT_GT(on_grid({2, 2}), on_line(4));
}

// What forward leaves behind for backward: each layer's own part of the input,
// the part of the activation function's, and the result.
TEST(GridRanks, ActivationsTakeTheirPartOfTheMemory) {
  const auto kept = [](const Shape& shape, bool keep_gathered) {
    double bytes = 0;
    run_ranks(ranks_of(shape), [&](World& world) {
      const TensorGrid grid(shape);
      GridLinear up(GridLinearOptions(64, 256, grid)
                        .bias(false)
                        .keep_gathered(keep_gathered));
      GridLinear down(GridLinearOptions(256, 64, grid)
                          .bias(false)
                          .input(GridLayout::Inner)
                          .keep_gathered(keep_gathered));
      const at::Tensor x = grid.part(torch::ones({512, 64})).contiguous();
      const TensorMemory memory;
      const std::int64_t before = memory.current();
      const at::Tensor y = down(torch::gelu(up(x)));
      const auto after = static_cast<double>(memory.current() - before);
      barrier();
      if (world.rank() == 0) {
        bytes = after;
      }
    });
    return bytes;
  };
  const double whole = 4.0 * 512 * (256 + 256 + 64);
  EXPECT_NEAR(kept({1, 1}, false), whole, 0.01 * whole);
  EXPECT_NEAR(kept({2, 2}, false), whole / 4, 0.01 * whole);
  EXPECT_NEAR(kept({2, 2, 2}, false), whole / 8, 0.01 * whole);
  EXPECT_GT(kept({2, 2, 2}, true), whole / 5);
}

// A norm of numbers around 1e4: the variance does not drown in the mean.
TEST(GridRanks, NormsOfLargeNumbers) {
  const at::Tensor x = (numbers({4, 8}, 3) + 1e4).to(torch::kFloat);
  const at::Tensor expected =
      torch::layer_norm(x.to(torch::kDouble), {8}).to(torch::kFloat);
  run_ranks(4, [&](World&) {
    for (const Shape& shape : {Shape{2, 2}, Shape{2, 1, 2}}) {
      const TensorGrid grid(shape);
      GridLayerNorm norm(
          GridLayerNormOptions(8, grid).elementwise_affine(false));
      EXPECT_TRUE(torch::allclose(
          grid.whole(norm(grid.part(x))), expected, 1e-2, 1e-2));
    }
  });
}

TEST(GridRanks, CloneAndFreeze) {
  run_ranks(4, [](World&) {
    model_parallel_random_seed(1);
    const TensorGrid grid({2, 2});
    GridLinear layer(GridLinearOptions(8, 8, grid));
    const auto copy = std::dynamic_pointer_cast<GridLinearImpl>(layer->clone());
    const at::Tensor x = grid.part(torch::ones({4, 8}));
    EXPECT_TRUE(torch::equal(copy->forward(x), layer(x)));
    EXPECT_TRUE(torch::equal(
        tp::full_parameter(copy->weight), tp::full_parameter(layer->weight)));

    // If neither the input nor the weight needs a gradient, nothing is sent.
    layer->weight.requires_grad_(false);
    const at::Tensor y = layer(x);
    CommDebug debug;
    y.sum().backward();
    EXPECT_EQ(debug.entries().size(), 0u) << debug.table();
    EXPECT_TRUE(layer->bias.grad().defined());

    EXPECT_THROW(
        torch::autograd::grad(
            {copy->forward(x).pow(2).sum()}, {copy->weight}, {}, {}, true),
        InvalidArgument);
  });
}

TEST(GridRanks, SaysWhatDoesNotFit) {
  run_ranks(4, [](World&) {
    const auto refusal = [](const auto& action) {
      return argosy::testing::refusal(action);
    };
    EXPECT_THAT(
        refusal([] {
          TensorGrid({2, 3});
        }),
        HasSubstr("a grid of 6 ranks for a group of 4"));
    EXPECT_THAT(refusal([] { TensorGrid({4}); }), HasSubstr("expected 2 or 3"));
    EXPECT_THAT(refusal([] { TensorGrid({0, 4}); }), HasSubstr("of 0 ranks"));
    const TensorGrid grid({2, 2});
    EXPECT_THAT(
        refusal([&] { GridLinear(GridLinearOptions(0, 8, grid)); }),
        HasSubstr("0 inputs, expected 1 or more"));
    EXPECT_THAT(
        refusal([&] { GridLinear(GridLinearOptions(8, 0, grid)); }),
        HasSubstr("0 outputs, expected 1 or more"));
    EXPECT_THAT(
        refusal([&] { GridLayerNorm(GridLayerNormOptions(0, grid)); }),
        HasSubstr("0 features, expected 1 or more"));
    GridLinear layer(GridLinearOptions(8, 8, grid));
    EXPECT_THAT(
        refusal([&] {
          layer(torch::ones({2, 8}));
        }),
        HasSubstr("expected this rank's part of layout Outer"));
  });
}

} // namespace
} // namespace argosy
