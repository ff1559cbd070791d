// Rules of softmax and of losses on classes against the unsharded ops, over all
// placements.

#include <gtest/gtest.h>
#include <torch/nn/functional/loss.h>

#include "argosy/comm/group.h"
#include "argosy/comm/traffic.h"
#include "tests/dtensor/op_checks.h"

namespace argosy {
namespace {

using argosy::testing::check_op;
using argosy::testing::exact_values;
using argosy::testing::leaf;
using argosy::testing::run_ranks;
using argosy::testing::Tensors;
using comm::OpKind;

namespace F = torch::nn::functional;

TEST(OpsRanks, Softmax) {
  check_op(
      [](const Tensors& x) { return torch::softmax(x[0], 1); }, {leaf({5, 3})});
  check_op(
      [](const Tensors& x) { return torch::softmax(x[0], 0); }, {leaf({5, 3})});
  check_op(
      [](const Tensors& x) { return torch::softmax(x[0], -1, torch::kDouble); },
      {leaf({2, 2, 3})});
  check_op(
      [](const Tensors& x) { return torch::log_softmax(x[0], 1); },
      {leaf({5, 3})});
  check_op(
      [](const Tensors& x) { return torch::log_softmax(x[0], 0); },
      {leaf({5, 3})});
}

// A row of which one rank has nothing but what is masked.
// A gradient that is cut meets a result that is not: the part that is cut off
// it is not contiguous, for which LibTorch's kernel is wrong.
TEST(OpsRanks, SoftmaxOfCutGradients) {
  run_ranks(2, [](World&) {
    const ProcessMesh mesh = ProcessMesh::of_shape({2});
    const at::Tensor plain = leaf({2, 4, 6, 6});
    const at::Tensor x = shard_tensor(plain.detach(), mesh, {Replicate()});
    x.requires_grad_();
    const at::Tensor grad = exact_values({2, 4, 6, 6}, 1);
    for (const bool is_log : {false, true}) {
      const auto rows = [&](const at::Tensor& of) {
        return is_log ? of.log_softmax(-1) : of.softmax(-1);
      };
      const auto expected =
          torch::autograd::grad({rows(plain)}, {plain}, {grad});
      for (const int dim : {0, 1, 2, 3}) {
        const auto got = torch::autograd::grad(
            {rows(x)}, {x}, {shard_tensor(grad, mesh, {Shard(dim)})});
        EXPECT_TRUE(argosy::testing::same(full_tensor(got[0]), expected[0]))
            << is_log << dim;
      }
    }
  });
}

TEST(OpsRanks, SoftmaxOfMasked) {
  check_op(
      [](const Tensors& x) {
        return torch::softmax(
            x[0].masked_fill(
                torch::ones({4, 4}, torch::kBool).triu(1), -INFINITY),
            -1);
      },
      {leaf({4, 4})});
}

struct ClassLoss {
  F::CrossEntropyFuncOptions options;
  at::Tensor target;

  at::Tensor operator()(const Tensors& x) const {
    return F::cross_entropy(x[0], x.size() > 1 ? x[1] : target, options);
  }
};

void check_reductions(
    const at::Tensor& input,
    const at::Tensor& target,
    F::CrossEntropyFuncOptions options) {
  check_op(ClassLoss{options.reduction(torch::kNone), {}}, {input, target});
  check_op(ClassLoss{options.reduction(torch::kSum), {}}, {input, target});
  check_op(ClassLoss{options.reduction(torch::kMean), {}}, {input, target});
}

at::Tensor classes(std::vector<std::int64_t> values) {
  return torch::tensor(values);
}

TEST(OpsRanks, CrossEntropy) {
  check_reductions(leaf({5, 3}), classes({2, 0, 1, 1, 2}), {});
  check_reductions(leaf({4, 5}), classes({4, 0, 3, 3}), {});
  check_op(ClassLoss{{}, classes({2, 0, 1, 1, 2})}, {leaf({5, 3})});
  check_op(ClassLoss{{}, torch::tensor(2)}, {leaf({5})});
}

TEST(OpsRanks, CrossEntropyWithWeightsAndIgnored) {
  const auto options = F::CrossEntropyFuncOptions()
                           .weight(torch::tensor({1.0f, 0.5f, 2.0f}))
                           .ignore_index(1);
  check_reductions(leaf({5, 3}), classes({2, 0, 1, 1, 2}), options);
  check_op(ClassLoss{options, classes({2, 0, 1, 1, 2})}, {leaf({5, 3})});
}

TEST(OpsRanks, CrossEntropyOfImages) {
  const at::Tensor target =
      (torch::arange(12) * 5 % 7).remainder(3).reshape({2, 3, 2});
  for (const auto& reduction :
       std::vector<F::CrossEntropyFuncOptions::reduction_t>{
           torch::kNone, torch::kMean}) {
    check_op(
        ClassLoss{
            F::CrossEntropyFuncOptions().reduction(reduction).ignore_index(2),
            target},
        {leaf({2, 3, 3, 2})});
  }
}

TEST(OpsRanks, CrossEntropyWithSmoothLabels) {
  const auto options = F::CrossEntropyFuncOptions().label_smoothing(0.1);
  check_reductions(leaf({5, 3}), classes({2, 0, 1, 1, 2}), options);
  check_op(
      ClassLoss{
          F::CrossEntropyFuncOptions(options)
              .weight(torch::tensor({1.0f, 0.5f, 2.0f}))
              .ignore_index(1),
          classes({2, 0, 1, 1, 2})},
      {leaf({5, 3})});
}

TEST(OpsRanks, CrossEntropyOfProbabilities) {
  check_op(ClassLoss{}, {leaf({4, 3}), exact_values({4, 3}, 2).abs() / 5});
}

// A target outside of the classes is an error whoever has which.
TEST(OpsRanks, CrossEntropyChecksTargets) {
  run_ranks(2, [](World&) {
    const at::Tensor x = shard_tensor(
        exact_values({2, 4}), ProcessMesh::of_shape({2}), {Shard(1)});
    EXPECT_THROW(F::cross_entropy(x, torch::tensor({1, 4})), InvalidArgument);
  });
}

// Classes cut: the rows' maxima and sums, and the loss. No tensor is gathered.
TEST(OpsRanks, CrossEntropyOfCutClassesSendsRowsOnly) {
  run_ranks(2, [](World&) {
    const ProcessMesh mesh = ProcessMesh::of_shape({2});
    const at::Tensor x = shard_tensor(exact_values({8, 6}), mesh, {Shard(1)});
    x.requires_grad_();
    const at::Tensor target = torch::arange(8).remainder(6);
    const at::Tensor loss = full_tensor(F::cross_entropy(x, target));
    loss.backward();
    EXPECT_EQ(placements_of(x.grad()), Placements{Shard(1)});
    const auto& traffic = get_group(0)->traffic();
    EXPECT_EQ(traffic.of(OpKind::AllReduce).calls, 4u);
    EXPECT_EQ(traffic.total().calls, 4u);
  });
}

// Samples cut: the sum of the losses with their weight.
TEST(OpsRanks, CrossEntropyOfCutSamplesReducesOnce) {
  run_ranks(2, [](World&) {
    const ProcessMesh mesh = ProcessMesh::of_shape({2});
    const at::Tensor x = shard_tensor(exact_values({7, 6}), mesh, {Shard(0)});
    x.requires_grad_();
    const at::Tensor target = torch::arange(7).remainder(6);
    const at::Tensor loss = F::cross_entropy(x, target);
    EXPECT_EQ(placements_of(loss), Placements{Replicate()});
    loss.backward();
    EXPECT_EQ(placements_of(x.grad()), Placements{Shard(0)});
    EXPECT_EQ(get_group(0)->traffic().total().calls, 1u);
  });
}

} // namespace
} // namespace argosy
