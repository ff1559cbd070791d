// Parameters and gradients in one buffer each.

#include "argosy/optim/flat_parameters.h"

#include <gtest/gtest.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/serialize.h>

#include <sstream>

#include "argosy/common/error.h"

namespace argosy::optim {
namespace {

torch::nn::Sequential mlp() {
  torch::manual_seed(3);
  return torch::nn::Sequential(
      torch::nn::Linear(7, 5), torch::nn::ReLU(), torch::nn::Linear(5, 3));
}

bool in(const at::Tensor& tensor, const at::Tensor& buffer) {
  const auto* begin = static_cast<const char*>(buffer.data_ptr());
  const auto* at = static_cast<const char*>(tensor.data_ptr());
  return at >= begin && at < begin + buffer.nbytes();
}

TEST(FlatParameters, KeepValuesAndHandles) {
  auto model = mlp();
  const at::Tensor handle = model->parameters()[0];
  std::vector<at::Tensor> before;
  for (const at::Tensor& param : model->parameters()) {
    before.push_back(param.detach().clone());
  }
  const FlatParameters flat(model->parameters());
  for (std::size_t i = 0; i < before.size(); ++i) {
    const at::Tensor param = model->parameters()[i];
    EXPECT_TRUE(torch::equal(param, before[i]));
    EXPECT_TRUE(in(param, flat.data()));
    EXPECT_TRUE(param.requires_grad() && param.is_leaf());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(param.data_ptr()) % 64, 0u);
  }
  flat.data().fill_(2);
  EXPECT_EQ(handle[0][0].item<float>(), 2);
}

TEST(FlatParameters, BackwardAddsToTheBuffer) {
  auto model = mlp();
  auto twin = mlp();
  FlatParameters flat(model->parameters());
  flat.attach_grads();
  const at::Tensor x = torch::randn({4, 7});
  for (int i = 0; i < 2; ++i) {
    model->forward(x).sum().backward();
    twin->forward(x).sum().backward();
  }
  for (std::size_t i = 0; i < flat.params().size(); ++i) {
    EXPECT_TRUE(in(model->parameters()[i].grad(), flat.grad()));
    EXPECT_TRUE(torch::equal(
        model->parameters()[i].grad(), twin->parameters()[i].grad()));
  }
  model->zero_grad();
  EXPECT_TRUE(in(model->parameters()[0].grad(), flat.grad()));
  EXPECT_EQ(flat.grad().abs().sum().item<float>(), 0);
}

TEST(FlatParameters, CollectGradientsThatComeFromElsewhere) {
  auto model = mlp();
  FlatParameters flat(model->parameters());
  auto params = model->parameters();
  params[0].mutable_grad() = torch::ones({5, 7});
  params[1].mutable_grad() = torch::full({1}, 2.f).expand({5});
  flat.collect_grads();
  EXPECT_TRUE(in(params[0].grad(), flat.grad()));
  EXPECT_TRUE(torch::equal(params[1].grad(), torch::full({5}, 2.f)));
  EXPECT_FALSE(params[2].grad().defined());
  EXPECT_EQ(flat.grad().sum().item<float>(), 35 + 10);

  params[0].mutable_grad() = at::Tensor();
  flat.collect_grads();
  EXPECT_EQ(flat.grad().sum().item<float>(), 10);
  EXPECT_FALSE(params[0].grad().defined());
  flat.attach_grads();
  EXPECT_TRUE(in(params[0].grad(), flat.grad()));
}

TEST(FlatParameters, SparseGradientsStayApart) {
  torch::nn::Embedding table(torch::nn::EmbeddingOptions(10, 3).sparse(true));
  FlatParameters flat(table->parameters());
  table->forward(torch::tensor({1, 1, 4})).sum().backward();
  flat.collect_grads();
  EXPECT_TRUE(table->weight.grad().is_sparse());
  flat.zero_grad();
  EXPECT_EQ(table->weight.grad().to_dense().sum().item<float>(), 0);
}

TEST(FlatParameters, CollectValuesOfALoadedModel) {
  auto saved = mlp();
  for (auto& param : saved->parameters()) {
    param.data().fill_(5);
  }
  std::stringstream file;
  torch::save(saved, file);

  auto model = mlp();
  FlatParameters flat(model->parameters());
  torch::load(model, file);
  flat.collect_params();
  for (const at::Tensor& param : model->parameters()) {
    EXPECT_TRUE(in(param, flat.data()));
    EXPECT_TRUE(torch::equal(param, torch::full_like(param, 5)));
  }
}

TEST(FlatParameters, AModelIsSavedOnceNotOncePerParameter) {
  torch::nn::Sequential model(
      torch::nn::Linear(100, 100),
      torch::nn::Linear(100, 100),
      torch::nn::Linear(100, 100));
  std::stringstream before;
  torch::save(model, before);
  const FlatParameters flat(model->parameters());
  std::stringstream after;
  torch::save(model, after);
  EXPECT_LT(after.str().size(), before.str().size() * 1.1);
}

TEST(FlatParameters, KeepTheOrderInMemory) {
  at::Tensor image =
      torch::randn({2, 3, 4, 5}).to(at::MemoryFormat::ChannelsLast);
  at::Tensor spread = torch::randn({4, 6}).slice(1, 0, 6, 2);
  const at::Tensor image_before = image.clone();
  const at::Tensor spread_before = spread.clone();
  const FlatParameters flat({image, spread});
  EXPECT_TRUE(image.is_contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_TRUE(spread.is_contiguous());
  EXPECT_TRUE(torch::equal(image, image_before));
  EXPECT_TRUE(torch::equal(spread, spread_before));
}

TEST(FlatParameters, LiveInMemoryThatTheCallerProvides) {
  const at::Tensor pool = torch::ones({1000});
  const Allocator from_pool = [&](at::IntArrayRef sizes, c10::ScalarType) {
    return pool.slice(0, 16, 16 + sizes[0]);
  };
  at::Tensor a = torch::randn({10}).requires_grad_();
  at::Tensor b = torch::randn({20}).requires_grad_();
  FlatParameters flat({a, b}, {.allocate_grad = from_pool});
  flat.attach_grads();
  (a.sum() + 2 * b.sum()).backward();
  EXPECT_EQ(pool[15].item<float>(), 1);
  EXPECT_EQ(pool[16].item<float>(), 1);
  EXPECT_EQ(pool[26].item<float>(), 0);
  EXPECT_EQ(pool[32].item<float>(), 2);
  const FlatSlot slot = flat.layout().slots[1];
  const at::Tensor bucket = flat.grad(slot.begin, slot.end());
  EXPECT_TRUE(torch::equal(bucket, b.grad()));
  EXPECT_EQ(bucket.data_ptr(), b.grad().data_ptr());
}

TEST(FlatParameters, AreSplitByType) {
  at::Tensor a = torch::randn({3});
  at::Tensor b = torch::randn({3}, torch::kDouble);
  at::Tensor c = torch::randn({3});
  EXPECT_THROW(FlatParameters({a, b}), InvalidArgument);
  const auto flat = flatten_by_type({a, b, c});
  ASSERT_EQ(flat.size(), 2u);
  EXPECT_EQ(flat[0].params().size(), 2u);
  EXPECT_EQ(flat[1].data().scalar_type(), torch::kDouble);
}

TEST(FlatParameters, RefuseWhatCannotBeFlat) {
  at::Tensor a = torch::randn({3});
  EXPECT_THROW(FlatParameters({}), InvalidArgument);
  EXPECT_THROW(FlatParameters({a, a}), InvalidArgument);
  EXPECT_THROW(
      FlatParameters({torch::ones({2}, torch::kLong)}), InvalidArgument);
  const Allocator small = [](at::IntArrayRef, c10::ScalarType type) {
    return torch::zeros({1}, type);
  };
  EXPECT_THROW(FlatParameters({a}, {.allocate_grad = small}), InvalidArgument);
}

} // namespace
} // namespace argosy::optim
