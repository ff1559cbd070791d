#include "argosy/training/parameter_marks.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "argosy/common/error.h"

namespace argosy {
namespace {

const ParameterMarks kCut{.is_distributed = true, .split_axis = 1};

TEST(ParameterMarks, AreThoseOfAnOrdinaryParameterUntilSet) {
  torch::nn::Linear layer(2, 3);
  EXPECT_EQ(marks_of(layer->weight), ParameterMarks());
  set_marks(layer->weight, kCut);
  set_marks(layer->bias, {.sequence_parallel = true});
  EXPECT_EQ(marks_of(layer->parameters()[0]), kCut);
  EXPECT_TRUE(marks_of(layer->bias).sequence_parallel);
  set_marks(layer->weight, {.need_clip = false});
  EXPECT_EQ(marks_of(layer->weight), ParameterMarks{.need_clip = false});
}

TEST(ParameterMarks, StayWithTheParameter) {
  torch::nn::Linear layer(2, 3);
  set_marks(layer->weight, kCut);
  layer->to(torch::kDouble);
  layer->weight.set_data(torch::ones({3, 2}, torch::kDouble));
  layer->weight.requires_grad_(false).requires_grad_(true);
  layer->zero_grad();
  EXPECT_EQ(marks_of(layer->weight), kCut);
  EXPECT_EQ(marks_of(layer->weight.detach()), ParameterMarks());
  EXPECT_EQ(marks_of(layer->weight.clone()), ParameterMarks());
}

// Of 1.13, registering the first hook drops what is there.
TEST(ParameterMarks, StayBesideHooks) {
  torch::nn::Linear layer(2, 3);
  set_marks(layer->weight, kCut);
  int calls = 0;
  layer->weight.register_hook([&](const at::Tensor& gradient) {
    ++calls;
    return gradient * 2;
  });
  layer->bias.register_hook(
      [](const at::Tensor& gradient) { return gradient * 3; });
  set_marks(layer->bias, kCut);
  layer(torch::ones({1, 2})).sum().backward();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(marks_of(layer->weight), kCut);
  EXPECT_EQ(marks_of(layer->bias), kCut);
  EXPECT_TRUE(torch::equal(layer->weight.grad(), torch::full({3, 2}, 2.0)));
  EXPECT_TRUE(torch::equal(layer->bias.grad(), torch::full({3}, 3.0)));
}

TEST(ParameterMarks, OfResultsAreRefused) {
  const at::Tensor leaf = torch::ones({2}, torch::requires_grad());
  EXPECT_THROW(set_marks(leaf * 2, kCut), InvalidArgument);
  EXPECT_THROW(set_marks({}, kCut), InvalidArgument);
}

} // namespace
} // namespace argosy
