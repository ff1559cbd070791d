// Megatron's sequence parallelism against one process that has all tokens.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "argosy/comm/shards.h"
#include "argosy/common/error.h"
#include "argosy/dtensor/tensor/comm_debug.h"
#include "argosy/sequence_parallel/layers.h"
#include "argosy/sequence_parallel/reduce_gradients.h"
#include "argosy/sequence_parallel/scatter_gather.h"
#include "argosy/tensor_parallel/parameters.h"
#include "argosy/testing/ranks.h"
#include "argosy/training/parameter_marks.h"
#include "argosy/world/world.h"
#include "tests/support/oracle_models.h"

namespace argosy {
namespace {

using argosy::testing::numbers;
using argosy::testing::run_ranks;
using argosy::testing::set_weights;
namespace sp = sequence_parallel;
namespace tp = tensor_parallel;

void expect_close(
    const at::Tensor& got,
    const at::Tensor& expected,
    const std::string& what) {
  EXPECT_TRUE(
      got.sizes() == expected.sizes() &&
      torch::allclose(got, expected, 1e-9, 1e-11))
      << what << "\n"
      << got << "\n"
      << expected;
}

at::Tensor own(const at::Tensor& whole, long dim) {
  return comm::own_shard(whole, dim, *get_group(0));
}

class SequenceParallel : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(
    Ranks, SequenceParallel, ::testing::Values(1, 2, 3, 4));

// 7 tokens: no number of ranks but one has equal parts of them.
const std::vector<std::int64_t> kShape = {7, 7, 3};

TEST_P(SequenceParallel, OpsAndTheirGradients) {
  run_ranks(GetParam(), [](World& world) {
    const double n = world.size();
    for (const long dim : {0, 1}) {
      const at::Tensor weight = numbers(kShape, 8);
      const at::Tensor x = numbers(kShape, 1).requires_grad_();
      const at::Tensor part = sp::scatter(x, nullptr, dim);
      expect_close(part, own(x.detach(), dim), "scatter");
      (part * own(weight, dim)).sum().backward();
      expect_close(x.grad(), weight, "gradient of scatter");

      const at::Tensor y = own(numbers(kShape, 2), dim).clone();
      y.requires_grad_();
      const at::Tensor whole = sp::gather(y, nullptr, dim, 7);
      expect_close(whole, numbers(kShape, 2), "gather");
      (whole * weight).sum().backward();
      expect_close(y.grad(), own(weight, dim), "gradient of gather");

      y.mutable_grad().reset();
      const at::Tensor all = sp::all_gather(y, nullptr, dim, 7);
      expect_close(all, numbers(kShape, 2), "all_gather");
      (all * weight).sum().backward();
      expect_close(y.grad(), n * own(weight, dim), "gradient of all_gather");

      const at::Tensor z = numbers(kShape, 3).requires_grad_();
      const at::Tensor sum = sp::reduce_scatter(z, nullptr, dim);
      expect_close(sum, n * own(z.detach(), dim), "reduce_scatter");
      (sum * own(weight, dim)).sum().backward();
      expect_close(z.grad(), weight, "gradient of reduce_scatter");
    }
  });
}

struct PlainMlpImpl : torch::nn::Module {
  torch::nn::LayerNorm norm = register_module(
      "norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({6})));
  torch::nn::Linear up = register_module("up", torch::nn::Linear(6, 10));
  torch::nn::Linear down = register_module("down", torch::nn::Linear(10, 6));

  at::Tensor forward(const at::Tensor& x) {
    return x + down(torch::gelu(up(norm(x))));
  }
};
TORCH_MODULE(PlainMlp);

struct CutMlpImpl : torch::nn::Module {
  CutMlpImpl(long dim, bool recompute, long length)
      : up(register_module(
            "up",
            ColumnSequenceParallelLinear(
                ColumnSequenceParallelLinearOptions(6, 10)
                    .sequence_dim(dim)
                    .sequence_length(length)
                    .recompute_allgather(recompute)))),
        down(register_module(
            "down",
            RowSequenceParallelLinear(
                RowSequenceParallelLinearOptions(10, 6).sequence_dim(dim)))) {
    for (const at::Tensor& each : norm->parameters()) {
      mark_as_sequence_parallel_parameter(each);
    }
    to(torch::kDouble);
  }

  torch::nn::LayerNorm norm = register_module(
      "norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({6})));
  ColumnSequenceParallelLinear up;
  RowSequenceParallelLinear down;

  at::Tensor forward(const at::Tensor& x) {
    return x + down(torch::gelu(up(norm(x))));
  }
};
TORCH_MODULE(CutMlp);

void expect_same_parameters(
    const torch::nn::Module& cut, const torch::nn::Module& whole) {
  const auto expected = whole.named_parameters();
  for (const auto& item : cut.named_parameters()) {
    const at::Tensor& wanted = expected[item.key()];
    expect_close(tp::full_parameter(item.value()), wanted.detach(), item.key());
    const ParameterMarks marks = marks_of(item.value());
    expect_close(
        item.value().grad(),
        marks.is_distributed ? own(wanted.grad(), marks.split_axis)
                             : wanted.grad(),
        item.key() + ".grad");
  }
}

// Tokens of all ranks: [7, 4, 6] or [4, 7, 6].
at::Tensor input_of(long dim, long step) {
  const at::Tensor x = numbers({7, 4, 6}, step + 20);
  return dim == 0 ? x : x.transpose(0, 1).contiguous();
}

void train_beside_one_process(long dim, bool recompute, bool fuse) {
  PlainMlp whole;
  set_weights(*whole);
  CutMlp cut(dim, recompute, 7);
  tp::load_module(*cut, *whole);
  torch::optim::SGD whole_sgd(whole->parameters(), 0.05);
  torch::optim::SGD cut_sgd(cut->parameters(), 0.05);
  const auto hooks = register_sequence_parallel_allreduce_hooks(*cut, 2, fuse);
  for (long step = 0; step < 6; ++step) {
    const at::Tensor x = input_of(dim, step);
    const at::Tensor y = whole(x);
    y.pow(2).sum().backward();
    const at::Tensor part = cut(own(x, dim));
    expect_close(part, own(y, dim), "y");
    part.pow(2).sum().backward();
    if (step % 2 == 1) { // gradients of two steps add up
      expect_same_parameters(*cut, *whole);
      whole_sgd.step();
      cut_sgd.step();
      whole_sgd.zero_grad();
      cut_sgd.zero_grad();
    }
  }
}

TEST_P(SequenceParallel, TrainsAsOneProcess) {
  run_ranks(GetParam(), [](World&) {
    for (const long dim : {0, 1}) {
      for (const bool recompute : {false, true}) {
        train_beside_one_process(dim, recompute, dim == 0);
      }
    }
  });
}

TEST(SequenceParallelRanks, ReducesGradientsAfterAFailedBackward) {
  run_ranks(2, [](World&) {
    for (const bool fuse : {false, true}) {
      PlainMlp whole;
      set_weights(*whole);
      CutMlp cut(0, false, 7);
      tp::load_module(*cut, *whole);
      const auto hooks =
          register_sequence_parallel_allreduce_hooks(*cut, 2, fuse);
      const auto backward = [&](long step, bool fails) {
        const at::Tensor x = own(input_of(0, step), 0).requires_grad_();
        x.register_hook([&](const at::Tensor& gradient) {
          ARGOSY_CHECK(!fails, "thrown inside of backward");
          return gradient;
        });
        cut(x).pow(2).sum().backward();
      };
      EXPECT_THROW(backward(0, true), InvalidArgument);
      cut->zero_grad();
      backward(0, false);
      EXPECT_THROW(backward(1, true), InvalidArgument);
      cut->zero_grad();
      for (long step = 0; step < 2; ++step) {
        whole(input_of(0, step)).pow(2).sum().backward();
        backward(step, false);
      }
      expect_same_parameters(*cut, *whole);
    }
  });
}

TEST(SequenceParallelRanks, ReducesGradientsOnDemand) {
  run_ranks(3, [](World& world) {
    PlainMlp whole;
    set_weights(*whole);
    CutMlp cut(0, false, 7);
    tp::load_module(*cut, *whole);
    whole(input_of(0, 1)).pow(2).sum().backward();
    cut(own(input_of(0, 1), 0)).pow(2).sum().backward();
    EXPECT_FALSE(
        torch::allclose(cut->down->bias.grad(), whole->down->bias.grad()))
        << "of this rank's tokens only";
    CommDebug debug;
    reduce_sequence_parallel_gradients(*cut);
    EXPECT_EQ(debug.entries().size(), 1u) << "of three gradients";
    expect_same_parameters(*cut, *whole);
    EXPECT_EQ(world.size(), 3);
  });
}

TEST(SequenceParallelRanks, LargeInputsAreGatheredAndScatteredBesideProducts) {
  run_ranks(2, [](World&) {
    torch::nn::Linear whole(128, 64);
    set_weights(*whole);
    ColumnSequenceParallelLinear cut(
        ColumnSequenceParallelLinearOptions(128, 64).recompute_allgather(true));
    cut->to(torch::kDouble);
    tp::load_module(*cut, *whole);
    const at::Tensor x = numbers({256, 2, 128}, 3).requires_grad_();
    const at::Tensor part = own(x.detach(), 0).clone().requires_grad_();
    whole(x).pow(2).sum().backward();
    cut(part).pow(2).sum().backward();
    EXPECT_TRUE(torch::allclose(part.grad(), own(x.grad(), 0)));
    EXPECT_TRUE(
        torch::allclose(cut->weight.grad(), own(whole->weight.grad(), 0)));
    EXPECT_TRUE(torch::allclose(cut->bias.grad(), own(whole->bias.grad(), 0)));
  });
}

TEST(SequenceParallelRanks, SendsWhatTheoryAsksFor) {
  run_ranks(2, [](World&) {
    const std::uint64_t activation = 8 * 4 * 6 * sizeof(double);
    for (const bool recompute : {false, true}) {
      CutMlp cut(0, recompute, 0);
      const at::Tensor x = numbers({4, 4, 6}, 1); // this rank's part
      CommDebug debug;
      const at::Tensor y = cut(x);
      EXPECT_EQ(debug.count("all_gather"), 1);
      EXPECT_EQ(debug.bytes("all_gather"), activation);
      EXPECT_EQ(debug.count("reduce_scatter"), 1);
      EXPECT_EQ(debug.bytes("reduce_scatter"), activation);
      EXPECT_EQ(debug.entries().size(), 2u);
      debug.clear();
      y.sum().backward();
      EXPECT_EQ(debug.count("all_gather"), recompute ? 2 : 1);
      EXPECT_EQ(debug.count("reduce_scatter"), 1);
      EXPECT_EQ(debug.bytes("reduce_scatter"), activation);
      EXPECT_EQ(debug.entries().size(), recompute ? 3u : 2u);
    }
  });
}

TEST(SequenceParallelRanks, MarksAndRefuses) {
  run_ranks(2, [](World&) {
    CutMlp cut(0, false, 0);
    EXPECT_TRUE(is_sequence_parallel_parameter(cut->norm->weight));
    EXPECT_TRUE(is_sequence_parallel_parameter(cut->down->bias));
    EXPECT_FALSE(is_sequence_parallel_parameter(cut->up->bias));
    EXPECT_FALSE(marks_of(cut->down->bias).is_distributed);
    EXPECT_THROW(
        (void)register_sequence_parallel_allreduce_hooks(*cut, 0),
        InvalidArgument);
    ColumnSequenceParallelLinear wrong(
        ColumnSequenceParallelLinearOptions(6, 10).sequence_dim(2));
    EXPECT_THROW(wrong(torch::ones({4, 4, 6})), InvalidArgument);
  });
}

} // namespace
} // namespace argosy
