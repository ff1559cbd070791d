// Placements that the user says: of optimizer states, of each tensor of a
// batch, and on the current mesh.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "argosy/mesh/rank_mesh.h"
#include "argosy/semi_auto/parallelize.h"
#include "argosy/semi_auto/shard_dataloader.h"
#include "argosy/semi_auto/split.h"
#include "tests/dtensor/op_checks.h"
#include "tests/support/refusal.h"

namespace argosy {
namespace {

using testing::exact_values;
using ::testing::HasSubstr;
using testing::refusal;
using testing::run_ranks;

torch::nn::Linear make_linear() {
  torch::nn::Linear linear(6, 4);
  const torch::NoGradGuard no_grad;
  linear->weight.copy_(exact_values({4, 6}));
  linear->bias.copy_(exact_values({4}, 1));
  return linear;
}

// Two steps of AdamW; `step` steps.
template <typename Step>
void train(torch::nn::Linear& linear, const at::Tensor& x, const Step& step) {
  for (int i = 0; i < 2; ++i) {
    linear->zero_grad();
    linear(x).pow(2).mean().backward();
    step();
  }
}

TEST(PlacedByHandRanks, AFunctionSaysWhereOptimizerStatesAre) {
  const at::Tensor x = exact_values({4, 6}, 2);
  torch::nn::Linear alone = make_linear();
  torch::optim::AdamW expected(alone->parameters());
  train(alone, x, [&] { expected.step(); });
  run_ranks(2, [&](World&) {
    const ProcessMesh mesh = ProcessMesh::of_shape({2}, {"dp"});
    torch::nn::Linear linear = make_linear();
    shard_layer(*linear, mesh);
    torch::optim::AdamW adam(linear->parameters());
    auto optimizer = shard_optimizer(adam, [](const at::Tensor& parameter) {
      return parameter.dim() == 2 ? Placements{Shard(1)}
                                  : placements_of(parameter);
    });
    EXPECT_EQ(adam.param_groups()[0].params()[0].numel(), 12); // a half
    EXPECT_EQ(adam.param_groups()[0].params()[1].numel(), 4);
    train(linear, shard_tensor(x, mesh, {Shard(0)}), [&] { optimizer.step(); });
    EXPECT_TRUE(torch::allclose(
        full_tensor(linear->weight.detach()), alone->weight, 1e-5, 1e-6));
    EXPECT_TRUE(torch::allclose(
        full_tensor(linear->bias.detach()), alone->bias, 1e-5, 1e-6));
    torch::optim::AdamW other(linear->parameters());
    EXPECT_THAT(
        refusal([&] {
          shard_optimizer(
              other, [](const at::Tensor&) { return Placements{Partial()}; });
        }),
        HasSubstr("expected Shard and Replicate"));
  });
}

template <typename Batch>
struct OneBatch {
  Batch batch;

  std::optional<Batch> next() { return batch; }
  int size() const { return 1; }
};

TEST(PlacedByHandRanks, EachTensorOfABatchHasItsMeshAndCuts) {
  run_ranks(4, [](World&) {
    const auto first = ProcessMesh::of_ranks({0, 1}, "sep");
    const auto last = ProcessMesh::of_ranks({2, 3}, "dp");
    const at::Tensor tokens = exact_values({4, 6});
    const at::Tensor labels = exact_values({4}, 1);
    OneBatch<data::Example> pairs{{tokens, labels}};
    const std::vector<BatchInput> inputs{
        {first, {Shard(1)}}, {last, {Shard(0)}}};
    auto loader = shard_dataloader(pairs, inputs);
    const auto batch = loader.next();
    EXPECT_EQ(dist_attr(batch->input), DistAttr(first, {Shard(1)}));
    EXPECT_EQ(dist_attr(batch->target), DistAttr(last, {Shard(0)}));
    const ProcessMesh all = ProcessMesh::of_shape({4});
    EXPECT_TRUE(torch::equal(
        full_tensor(reshard(batch->input, all, {Replicate()})), tokens));
    EXPECT_TRUE(torch::equal(
        full_tensor(reshard(batch->target, all, {Replicate()})), labels));

    OneBatch<std::map<std::string, at::Tensor>> named{
        {{"labels", labels}, {"tokens", tokens}}};
    auto by_name =
        shard_dataloader(named, inputs, {.input_keys = {"tokens", "labels"}});
    EXPECT_EQ(
        placements_of(by_name.next()->at("tokens")), Placements{Shard(1)});
  });
}

TEST(PlacedByHandRanks, RefusesBatchesOfOtherTensors) {
  run_ranks(1, [](World&) {
    const ProcessMesh mesh = ProcessMesh::of_shape({1});
    const std::vector<BatchInput> two{
        {mesh, {Shard(0)}}, {mesh, {Replicate()}}};
    const at::Tensor x = exact_values({2});
    OneBatch<std::vector<at::Tensor>> three{{x, x, x}};
    EXPECT_THAT(
        refusal([&] { shard_dataloader(three, two).next(); }),
        HasSubstr("a batch of 3 tensors, expected 2"));
    OneBatch<std::map<std::string, at::Tensor>> named{{{"a", x}, {"b", x}}};
    EXPECT_THAT(
        refusal([&] {
          shard_dataloader(named, two, {.input_keys = {"a", "c"}}).next();
        }),
        HasSubstr("a tensor b, and input_keys are [a, c]"));
  });
}

TEST(PlacedByHandRanks, TheCurrentMeshCountsWhereNoneIsGiven) {
  run_ranks(2, [](World&) {
    EXPECT_THAT(
        refusal([] { shard_tensor(exact_values({4}), {Shard(0)}); }),
        HasSubstr("[shard_tensor] no mesh is given, and this rank has no "
                  "current one"));
    const ProcessMesh mesh = ProcessMesh::of_shape({2}, {"mp"});
    set_mesh(mesh);
    const at::Tensor value = exact_values({4, 6});
    const DistAttr rows(mesh, {Shard(0)});
    const at::Tensor x = shard_tensor(value, {Shard(0)});
    EXPECT_EQ(dist_attr(x), rows);
    EXPECT_EQ(dist_attr(from_local(to_local(x), {Shard(0)})), rows);
    EXPECT_EQ(dist_attr(from_local(to_local(x), {Shard(0)}, {4, 6})), rows);
    EXPECT_EQ(
        dist_attr(dtensor_from_fn([&] { return value; }, {Shard(0)})), rows);
    EXPECT_EQ(dist_attr(dtensor_rand({4, 6}, {Shard(0)})), rows);
    EXPECT_EQ(dist_attr(dtensor_randn({4, 6}, {Shard(0)})), rows);
    EXPECT_EQ(dist_attr(reshard(x, {Shard(1)})), DistAttr(mesh, {Shard(1)}));
    const at::Tensor plain = value.clone();
    shard_tensor_(plain, {Shard(0)});
    EXPECT_EQ(dist_attr(plain), rows);

    torch::nn::Linear layer = make_linear();
    shard_layer(*layer);
    EXPECT_EQ(placements_of(layer->weight), Placements{Replicate()});
    torch::nn::Sequential net(make_linear());
    parallelize(*net, {.mp_config = {{"0", ColWiseParallel()}}});
    EXPECT_EQ(dist_attr(net->parameters()[0]), rows);
    EXPECT_EQ(
        dist_attr(
            split({6, 4}, "linear", {.axis = 1}).module()->parameters()[0]),
        rows);
    OneBatch<at::Tensor> batches{value};
    EXPECT_EQ(
        placements_of(*shard_dataloader(batches).next()),
        Placements{Replicate()});
  });
}

} // namespace
} // namespace argosy
