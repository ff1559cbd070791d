// Tensor parallel layers and ops against one process that has the whole.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "argosy/comm/shards.h"
#include "argosy/common/error.h"
#include "argosy/dtensor/tensor/comm_debug.h"
#include "argosy/optim/autocast.h"
#include "argosy/tensor_parallel/layers.h"
#include "argosy/tensor_parallel/ops.h"
#include "argosy/tensor_parallel/parameters.h"
#include "argosy/tensor_parallel/rng.h"
#include "argosy/testing/gtest_ranks.h"
#include "argosy/testing/ranks.h"
#include "argosy/training/parameter_marks.h"
#include "argosy/world/world.h"
#include "tests/support/oracle_models.h"

namespace argosy {
namespace {

using argosy::testing::numbers;
using argosy::testing::run_ranks;
using argosy::testing::set_weights;
using ::testing::HasSubstr;
namespace F = torch::nn::functional;
namespace tp = tensor_parallel;

void expect_close(
    const at::Tensor& got, const at::Tensor& expected, const char* what) {
  EXPECT_TRUE(
      got.sizes() == expected.sizes() &&
      torch::allclose(got, expected, 1e-9, 1e-11))
      << what << "\n"
      << got << "\n"
      << expected;
}

// This rank's part of what belongs to the whole parameter.
at::Tensor part_for(const at::Tensor& parameter, const at::Tensor& whole) {
  const ParameterMarks marks = marks_of(parameter);
  return marks.is_distributed
      ? comm::own_shard(whole, marks.split_axis, *get_group(0))
      : whole;
}

void expect_same_parameters(
    const torch::nn::Module& parallel, const torch::nn::Module& whole) {
  const auto expected = whole.named_parameters();
  ASSERT_EQ(parallel.parameters().size(), expected.size());
  for (const auto& item : parallel.named_parameters()) {
    const at::Tensor& wanted = expected[item.key()];
    expect_close(
        tp::full_parameter(item.value()), wanted.detach(), item.key().c_str());
    if (wanted.grad().defined()) {
      expect_close(
          item.value().grad(),
          part_for(item.value(), wanted.grad()),
          (item.key() + ".grad").c_str());
    }
  }
}

class TensorParallel : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, TensorParallel, ::testing::Values(1, 2, 3, 4));

// 2500 rows are drawn in several blocks; 5 do not divide, and leave rank 3 of 4
// nothing.
TEST_P(TensorParallel, PartsAreThoseOfTheLayerOfOneProcess) {
  torch::manual_seed(11);
  const torch::nn::Linear first(7, 5);
  const torch::nn::Linear second(5, 2500);
  const torch::nn::Embedding table(2500, 3);
  const torch::nn::Linear last(1030, 1);
  const torch::nn::Embedding narrow(1027, 1);
  run_ranks(GetParam(), [&](World& world) {
    model_parallel_random_seed(11);
    const ColumnParallelLinear own_first(ColumnParallelLinearOptions(7, 5));
    const ColumnParallelLinear own_second(ColumnParallelLinearOptions(5, 2500));
    const VocabParallelEmbedding own_table(
        VocabParallelEmbeddingOptions(2500, 3));
    const RowParallelLinear own_last(RowParallelLinearOptions(1030, 1));
    const VocabParallelEmbedding own_narrow(
        VocabParallelEmbeddingOptions(1027, 1));
    const auto same = [](const at::Tensor& own, const at::Tensor& whole) {
      EXPECT_TRUE(torch::equal(tp::full_parameter(own), whole.detach()));
    };
    same(own_first->weight, first->weight);
    same(own_first->bias, first->bias);
    same(own_second->weight, second->weight);
    same(own_second->bias, second->bias);
    same(own_table->weight, table->weight);
    same(own_last->weight, last->weight);
    same(own_last->bias, last->bias);
    same(own_narrow->weight, narrow->weight);
    const bool is_cut = world.size() > 1;
    EXPECT_EQ(marks_of(own_first->bias).is_distributed, is_cut);
    EXPECT_EQ(marks_of(own_last->weight).split_axis, is_cut ? 1 : -1);
    EXPECT_EQ(marks_of(own_last->bias), ParameterMarks());
    EXPECT_LE(own_second->weight.size(0), 2500 / world.size() + 1);
  });
}

TEST(TensorParallelProcesses, DrawTheSameFromTorchsGenerator) {
  argosy::testing::run_process_ranks(2, [](World&) {
    torch::manual_seed(5);
    const torch::nn::Linear whole(6, 9);
    torch::manual_seed(5);
    const ColumnParallelLinear own(ColumnParallelLinearOptions(6, 9));
    EXPECT_TRUE(
        torch::equal(tp::full_parameter(own->weight), whole->weight.detach()));
    EXPECT_TRUE(
        torch::equal(tp::full_parameter(own->bias), whole->bias.detach()));
  });
}

struct PlainMlpImpl : torch::nn::Module {
  torch::nn::Embedding tokens =
      register_module("tokens", torch::nn::Embedding(13, 6));
  torch::nn::Linear up = register_module("up", torch::nn::Linear(6, 10));
  torch::nn::Linear down = register_module("down", torch::nn::Linear(10, 6));
  torch::nn::Linear head = register_module(
      "head", torch::nn::Linear(torch::nn::LinearOptions(6, 13).bias(false)));

  at::Tensor loss(const at::Tensor& text, const at::Tensor& target) {
    const at::Tensor x = tokens(text);
    const at::Tensor scores = head(x + down(torch::gelu(up(x))));
    return F::cross_entropy(scores.flatten(0, 1), target.flatten());
  }
};
TORCH_MODULE(PlainMlp);

// `cut` says whether activations stay cut between the layers.
struct ParallelMlpImpl : torch::nn::Module {
  explicit ParallelMlpImpl(bool cut)
      : up(register_module(
            "up",
            ColumnParallelLinear(
                ColumnParallelLinearOptions(6, 10).gather_output(!cut)))),
        down(register_module(
            "down",
            RowParallelLinear(
                RowParallelLinearOptions(10, 6).input_is_parallel(cut)))) {}

  VocabParallelEmbedding tokens = register_module(
      "tokens", VocabParallelEmbedding(VocabParallelEmbeddingOptions(13, 6)));
  ColumnParallelLinear up;
  RowParallelLinear down;
  ColumnParallelLinear head = register_module(
      "head",
      ColumnParallelLinear(
          ColumnParallelLinearOptions(6, 13).bias(false).gather_output(false)));
  ParallelCrossEntropy criterion = register_module(
      "criterion",
      ParallelCrossEntropy(ParallelCrossEntropyOptions().num_classes(13)));

  at::Tensor loss(const at::Tensor& text, const at::Tensor& target) {
    const at::Tensor x = tokens(text);
    const at::Tensor scores = head(x + down(torch::gelu(up(x))));
    const at::Tensor losses = criterion(scores, target);
    return losses.sum() / target.ne(-100).sum();
  }
};
TORCH_MODULE(ParallelMlp);

at::Tensor tokens_of(long seed) {
  return ((numbers({4, 5}, seed) + 1) * 5000).to(torch::kLong).remainder(13);
}

at::Tensor targets_of(long seed) {
  const at::Tensor target = tokens_of(seed + 70);
  return target.masked_fill(target.eq(3), -100);
}

template <typename Model>
double train_step(Model& model, torch::optim::Optimizer& optimizer, long step) {
  optimizer.zero_grad();
  const at::Tensor loss = model->loss(tokens_of(step), targets_of(step));
  loss.backward();
  optimizer.step();
  return loss.template item<double>();
}

TEST_P(TensorParallel, TrainsAsOneProcess) {
  run_ranks(GetParam(), [](World&) {
    for (const bool cut : {true, false}) {
      PlainMlp whole;
      set_weights(*whole);
      torch::optim::Adam whole_adam(whole->parameters(), 0.01);
      ParallelMlp own(cut);
      own->to(torch::kDouble);
      tp::load_module(*own, *whole);
      torch::optim::Adam own_adam(own->parameters(), 0.01);
      for (long step = 0; step < 4; ++step) {
        const double expected = train_step(whole, whole_adam, step);
        EXPECT_NEAR(train_step(own, own_adam, step), expected, 1e-10);
        expect_same_parameters(*own, *whole);
      }
    }
  });
}

// What makes backward's reduction run beside the product: enough bytes.
TEST_P(TensorParallel, LargeGradientsAreReducedBesideTheProduct) {
  run_ranks(GetParam(), [](World&) {
    torch::nn::Linear whole(300, 70);
    set_weights(*whole);
    ColumnParallelLinear own(ColumnParallelLinearOptions(300, 70));
    own->to(torch::kDouble);
    tp::load_module(*own, *whole);
    const at::Tensor x = numbers({3, 50, 300}, 4).requires_grad_();
    const at::Tensor own_x = x.detach().clone().requires_grad_();
    const at::Tensor weight = numbers({3, 50, 70}, 5);
    (whole(x) * weight).sum().backward();
    const at::Tensor y = own(own_x);
    expect_close(y, whole(x), "y");
    (y * weight).sum().backward();
    expect_close(own_x.grad(), x.grad(), "x.grad");
    expect_same_parameters(*own, *whole);
  });
}

TEST_P(TensorParallel, OpsUndoEachOther) {
  run_ranks(GetParam(), [](World&) {
    for (const long dim : {0, 1, -1}) {
      const at::Tensor x = numbers({5, 3, 7}, 1).requires_grad_();
      const at::Tensor whole = tp::gather_from(
          tp::scatter_to(x, nullptr, dim) * 2, nullptr, dim, x.size(dim));
      expect_close(whole, x.detach() * 2, "whole");
      (whole * numbers({5, 3, 7}, 2)).sum().backward();
      expect_close(x.grad(), 2 * numbers({5, 3, 7}, 2), "gradient");
    }
  });
}

struct Scores {
  at::Tensor whole;
  at::Tensor target;
  std::int64_t ignore_index = -100;
};

void check_cross_entropy(const Scores& scores, double tolerance) {
  const at::Tensor whole = scores.whole.detach().clone().requires_grad_();
  const std::int64_t classes = whole.size(-1);
  const at::Tensor exact = F::cross_entropy(
                               whole.to(torch::kDouble).view({-1, classes}),
                               scores.target.flatten(),
                               F::CrossEntropyFuncOptions()
                                   .ignore_index(scores.ignore_index)
                                   .reduction(torch::kNone))
                               .view_as(scores.target);
  const at::Tensor weight = numbers(exact.sizes(), 9);
  (exact * weight).sum().backward();

  const at::Tensor own =
      comm::own_shard(scores.whole.detach(), -1, *get_group(0))
          .clone()
          .requires_grad_();
  ParallelCrossEntropy criterion(ParallelCrossEntropyOptions()
                                     .ignore_index(scores.ignore_index)
                                     .num_classes(classes));
  const at::Tensor loss = criterion(own, scores.target);
  EXPECT_EQ(loss.sizes(), scores.target.sizes());
  EXPECT_TRUE(torch::allclose(
      loss.to(torch::kDouble), exact.detach(), tolerance, tolerance))
      << loss << exact;
  (loss * weight).sum().backward();
  EXPECT_EQ(own.grad().scalar_type(), own.scalar_type());
  EXPECT_TRUE(torch::allclose(
      own.grad().to(torch::kDouble),
      comm::own_shard(whole.grad(), -1, *get_group(0)).to(torch::kDouble),
      tolerance,
      tolerance))
      << own.grad();
}

TEST_P(TensorParallel, CrossEntropy) {
  run_ranks(GetParam(), [](World&) {
    const at::Tensor target = tokens_of(1);
    const at::Tensor some_ignored = targets_of(1);
    const at::Tensor scores = numbers({4, 5, 13}, 3) * 5;
    check_cross_entropy({scores, target}, 1e-12);
    check_cross_entropy({scores, some_ignored}, 1e-12);
    check_cross_entropy({scores, target.unsqueeze(-1)}, 1e-12);
    check_cross_entropy({scores, target, 4}, 1e-12);
    check_cross_entropy({scores[0][0], target[0][0]}, 1e-12);
    check_cross_entropy({scores, torch::full_like(target, -100)}, 1e-12);
    check_cross_entropy({scores.to(torch::kBFloat16), some_ignored}, 1e-2);
    check_cross_entropy({scores.to(torch::kFloat), some_ignored}, 1e-5);
    // Exponentials of these overflow, and their sums vanish.
    check_cross_entropy({scores * 1e5, some_ignored}, 1e-12);
    check_cross_entropy({(scores * 1e4).to(torch::kFloat), target}, 1e-5);
  });
}

TEST(TensorParallelRanks, CrossEntropyRefusesWhatIsNoClass) {
  run_ranks(2, [](World&) {
    const at::Tensor scores = torch::zeros({3, 4});
    const auto message_of = [&](const at::Tensor& target) -> std::string {
      try {
        tp::cross_entropy(scores, target);
      } catch (const InvalidArgument& error) {
        return error.what();
      }
      return "";
    };
    EXPECT_THAT(
        message_of(torch::tensor({1, 8, -100})),
        HasSubstr("target 8 is not in [0, 8)"));
    EXPECT_THAT(message_of(torch::tensor({1, -1, 2})), HasSubstr("target -1"));
    EXPECT_THAT(message_of(torch::tensor({1})), HasSubstr("a target for each"));
    EXPECT_THROW(
        tp::cross_entropy(
            scores, torch::zeros({3}, torch::kLong), nullptr, {-100, 20}),
        InvalidArgument);
  });
}

TEST(TensorParallelRanks, LayersRefuseWrongInputs) {
  run_ranks(2, [](World&) {
    VocabParallelEmbedding table(VocabParallelEmbeddingOptions(5, 2));
    EXPECT_THROW(table(torch::tensor({0, 5})), InvalidArgument);
    EXPECT_THROW(table(torch::tensor({0, -1})), InvalidArgument);
    ColumnParallelLinear column(ColumnParallelLinearOptions(5, 2));
    EXPECT_THROW(column(torch::ones({1, 4})), InvalidArgument);
    RowParallelLinear row(
        RowParallelLinearOptions(6, 2).input_is_parallel(true));
    EXPECT_THROW(row(torch::ones({1, 6})), InvalidArgument);
    EXPECT_THROW(
        ColumnParallelLinear(ColumnParallelLinearOptions(5, 0)),
        InvalidArgument);
    EXPECT_THROW(
        tp::load_parameter(column->weight, torch::ones({2, 4})),
        InvalidArgument);
  });
}

TEST(TensorParallelRanks, LayersCloneAndFreeze) {
  run_ranks(2, [](World&) {
    model_parallel_random_seed(1);
    ColumnParallelLinear layer(ColumnParallelLinearOptions(4, 6));
    const auto copy =
        std::dynamic_pointer_cast<ColumnParallelLinearImpl>(layer->clone());
    EXPECT_TRUE(torch::equal(copy->weight, layer->weight));
    EXPECT_TRUE(marks_of(copy->weight).is_distributed);
    const at::Tensor x = torch::ones({2, 4});
    EXPECT_TRUE(torch::equal(copy->forward(x), layer(x)));

    // An input that needs no gradient costs no reduction.
    CommDebug debug;
    layer->weight.requires_grad_(false);
    layer(x).sum().backward();
    EXPECT_EQ(debug.count("all_reduce"), 0);
    EXPECT_FALSE(layer->weight.grad().defined());
    EXPECT_TRUE(layer->bias.grad().defined());
    EXPECT_THROW(
        torch::autograd::grad(
            {layer(x).pow(2).sum()},
            {layer->bias},
            {},
            {},
            /*create_graph=*/true),
        InvalidArgument);
  });
}

TEST(TensorParallelRanks, AutocastComputesInBFloat16) {
  run_ranks(2, [](World&) {
    PlainMlp whole;
    set_weights(*whole);
    whole->to(torch::kFloat);
    ParallelMlp own(true);
    tp::load_module(*own, *whole);
    at::Tensor expected;
    at::Tensor loss;
    {
      const optim::AutoCast autocast;
      const at::Tensor hidden = own->up(torch::ones({2, 6}));
      EXPECT_EQ(hidden.scalar_type(), torch::kBFloat16);
      expected = whole->loss(tokens_of(1), targets_of(1));
      loss = own->loss(tokens_of(1), targets_of(1));
    }
    EXPECT_NEAR(loss.item<double>(), expected.item<double>(), 0.03);
    expected.backward();
    loss.backward();
    EXPECT_EQ(own->up->weight.grad().scalar_type(), torch::kFloat);
    EXPECT_TRUE(torch::allclose(
        own->up->weight.grad(),
        part_for(own->up->weight, whole->up->weight.grad()),
        0.1,
        0.01));
  });
}

// Forward one all_reduce of the activation, backward one; the embedding's, and
// of the loss the largest scores and the sums.
TEST(TensorParallelRanks, SendsWhatTheoryAsksFor) {
  run_ranks(2, [](World&) {
    ParallelMlp own(true);
    own->to(torch::kDouble);
    const std::uint64_t tokens = 4 * 5;
    const std::uint64_t activation = tokens * 6 * sizeof(double);
    CommDebug debug;
    const at::Tensor loss = own->loss(tokens_of(1), targets_of(1));
    EXPECT_EQ(debug.count("all_reduce"), 2 + 2);
    EXPECT_EQ(
        debug.bytes("all_reduce"),
        2 * activation + 3 * tokens * sizeof(double));
    debug.clear();
    loss.backward();
    EXPECT_EQ(debug.count("all_reduce"), 2) << "up and head";
    EXPECT_EQ(debug.bytes("all_reduce"), 2 * activation);
    EXPECT_EQ(debug.entries().size(), 2u);
  });
}

} // namespace
} // namespace argosy
