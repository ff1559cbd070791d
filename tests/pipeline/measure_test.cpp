#include "argosy/pipeline/measure.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "argosy/common/error.h"

namespace argosy::pipeline {
namespace {

namespace nn = torch::nn;

template <typename Module>
std::function<Tensors(const Tensors&)> layer(Module module) {
  return [module](const Tensors& in) mutable {
    return Tensors{module->forward(in[0])};
  };
}

TEST(Measure, CostsOfLayers) {
  const nn::Linear up(64, 256);
  const nn::Linear down(256, 64);
  const at::Tensor gradient = torch::ones({64, 256});
  down->weight.mutable_grad() = gradient;
  const std::vector<LayerCost> costs = measure_layers(
      {layer(up), layer(nn::Tanh()), layer(down)},
      {torch::ones({300, 64}).requires_grad_()});
  ASSERT_EQ(costs.size(), 3u);
  for (const int i : {0, 2}) {
    EXPECT_GT(costs[i].forward, 0);
    EXPECT_GT(costs[i].backward_input, 0);
    EXPECT_GT(costs[i].backward_weight, 5 * costs[1].backward_weight);
  }
  const std::int64_t weight = 64 * 256 * sizeof(float);
  EXPECT_EQ(costs[0].parameter_bytes, weight + 256 * sizeof(float));
  EXPECT_EQ(costs[1].parameter_bytes, 0);
  EXPECT_EQ(costs[2].parameter_bytes, weight + 64 * sizeof(float));
  const std::int64_t rows = 300 * sizeof(float);
  EXPECT_EQ(costs[0].activation_bytes, 64 * rows);  // its input
  EXPECT_EQ(costs[1].activation_bytes, 256 * rows); // its result
  EXPECT_EQ(costs[2].activation_bytes, 256 * rows);
  EXPECT_EQ(costs[0].bytes_between_halves, (64 + 256) * rows);
  EXPECT_EQ(costs[1].bytes_between_halves, 0);
  EXPECT_EQ(costs[2].bytes_between_halves, (256 + 64) * rows);
  EXPECT_TRUE(down->weight.grad().is_same(gradient));
  EXPECT_TRUE(torch::equal(gradient, torch::ones({64, 256})));
  EXPECT_FALSE(up->weight.grad().defined());
}

// Without a gradient to pass on, all of backward is for weights.
TEST(Measure, TheFirstLayerHasNoFirstHalf) {
  const nn::Linear linear(256, 256);
  const at::Tensor x = torch::ones({200, 256});
  const auto cost = [&](bool requires_grad) {
    return measure_layers(
        {layer(linear)}, {x.detach().requires_grad_(requires_grad)})[0];
  };
  EXPECT_LT(cost(false).backward_input, cost(true).backward_input / 2);
  EXPECT_THROW(measure_layers({layer(linear)}, {x}, 0), InvalidArgument);
}

} // namespace
} // namespace argosy::pipeline
