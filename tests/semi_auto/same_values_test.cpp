// What must be the same on all ranks of a mesh is compared, so that copies do
// not diverge in silence.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "argosy/comm/group.h"
#include "argosy/comm/objects.h"
#include "argosy/comm/same_values.h"
#include "argosy/dtensor/deferred_init.h"
#include "argosy/dtensor/tensor/comm_debug.h"
#include "argosy/semi_auto/parallelize.h"
#include "argosy/semi_auto/shard_dataloader.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"
#include "tests/support/refusal.h"

namespace argosy {
namespace {

using argosy::testing::refusal;
using argosy::testing::run_ranks;
using ::testing::AllOf;
using ::testing::HasSubstr;

torch::nn::Linear make_linear(double weight) {
  torch::nn::Linear linear(4, 4);
  const torch::NoGradGuard no_grad;
  linear->weight.fill_(weight);
  linear->bias.zero_();
  return linear;
}

TEST(SameValues, HashesTellTensorsApart) {
  const at::Tensor x = torch::arange(35).reshape({5, 7}).to(torch::kFloat);
  const auto hash = comm::value_hash(x);
  EXPECT_EQ(comm::value_hash(x.clone()), hash);
  EXPECT_EQ(comm::value_hash(x.t().contiguous().t()), hash);
  EXPECT_NE(comm::value_hash(x.reshape({7, 5})), hash);
  EXPECT_NE(comm::value_hash(x.to(torch::kInt)), hash);
  for (int i = 0; i < 35; ++i) {
    at::Tensor other = x.clone();
    other.view({-1})[i] += 1;
    EXPECT_NE(comm::value_hash(other), hash) << i;
  }
  EXPECT_EQ(comm::value_hash(at::Tensor()), 0u);
}

TEST(SameValuesRanks, TheFirstDifferenceIsNamedOnAllRanks) {
  run_ranks(4, [](World& world) {
    const at::Tensor one = torch::ones({3});
    const at::Tensor own = torch::full({2}, world.rank() % 2);
    const auto group = get_group(0);
    EXPECT_EQ(comm::first_difference({{"a", one}}, group), "");
    EXPECT_EQ(
        comm::first_difference({{"a", one}, {"b", own}}, group),
        "b: Long [2]: the values on ranks 1, 3 differ from those on rank 0");
    const at::Tensor shape = torch::ones({world.rank() == 3 ? 4 : 3});
    EXPECT_EQ(
        comm::first_difference({{"a", shape}}, group),
        "a: Float [3] on rank 0, a: Float [4] on rank 3");
  });
}

TEST(SameValuesRanks, InputsThatDifferByRankAreRefused) {
  run_ranks(2, [](World& world) {
    const ProcessMesh mesh = ProcessMesh::of_shape({2}, {"dp"});
    torch::nn::Linear model = make_linear(0.5);
    parallelize(*model, mesh, {});
    const at::Tensor own = torch::full({3, 4}, float(world.rank()));
    EXPECT_THAT(
        refusal([&] { model(own); }),
        AllOf(
            HasSubstr("plain tensor beside a DTensor"),
            HasSubstr("[3, 4]: the values on rank 1 differ from those on rank"),
            HasSubstr("shard_dataloader("),
            HasSubstr("broadcast()")));
    EXPECT_THAT(
        refusal([&] { shard_tensor(own, mesh, {Shard(0)}); }),
        AllOf(HasSubstr("[dtensor.shard_tensor]"), HasSubstr("from_local()")));
    EXPECT_THAT(
        refusal([&] { from_local(own, mesh, {Replicate()}); }),
        HasSubstr("[dtensor.from_local]"));
    from_local(own, mesh, {Shard(0)});
    dtensor_check_values(0);
    model(own);
  });
}

// One loader per rank of the mesh, where ranks of mp should read the same.
TEST(SameValuesRanks, RanksOfTensorParallelismMustLoadTheSame) {
  run_ranks(4, [](World& world) {
    const ProcessMesh mesh = ProcessMesh::of_shape({2, 2}, {"dp", "mp"});
    struct Loader {
      float value;
      std::optional<at::Tensor> next() { return torch::full({2}, value); }
      int size() const { return 1; }
    };
    Loader same{float(world.rank() / 2)};
    EXPECT_TRUE(shard_dataloader(same, mesh, "dp", true).next());
    Loader own{float(world.rank())};
    EXPECT_THAT(
        refusal([&] { shard_dataloader(own, mesh, "dp", true).next(); }),
        AllOf(
            HasSubstr("ranks on an axis that replicates hold the same part"),
            HasSubstr(world.rank() < 2 ? "on rank 1" : "on rank 3")));
  });
}

TEST(SameValuesRanks, InitialValuesThatDifferByRankAreRefused) {
  run_ranks(2, [](World& world) {
    const ProcessMesh mesh = ProcessMesh::of_shape({2}, {"mp"});
    torch::nn::Sequential model(
        make_linear(0.5), make_linear(world.rank() + 1.0));
    EXPECT_THAT(
        refusal([&] { parallelize(*model, mesh, {}); }),
        AllOf(
            HasSubstr("[parallelize] the model must have the same initial"),
            HasSubstr("1.weight: Float [4, 4]: the values on rank 1"),
            HasSubstr("DeferredInit")));
    EXPECT_THAT(
        refusal([&] { shard_layer(*model, mesh); }),
        HasSubstr("[shard_layer]"));
    EXPECT_THAT(
        refusal([&] {
          shard_tensor_(model->parameters()[2], mesh, Placements{Shard(0)});
        }),
        HasSubstr("[dtensor.shard_tensor_]"));
    // Nothing was changed, so the ranks can agree and go on.
    for (const at::Tensor& each : model->parameters()) {
      broadcast(each.detach());
    }
    parallelize(*model, mesh, {});
    EXPECT_TRUE(is_dtensor(model->parameters()[2]));
  });
}

// Thread ranks share LibTorch's generator, so that their models differ; those
// of DeferredInit do not.
TEST(SameValuesRanks, DeferredModelsAreEqualByThemselves) {
  run_ranks(2, [](World&) {
    torch::nn::Linear model = nullptr;
    {
      const DeferredInit deferred;
      model = torch::nn::Linear(4, 4);
    }
    const CommDebug debug;
    parallelize(*model, ProcessMesh::of_shape({2}, {"mp"}), {});
    EXPECT_TRUE(debug.entries().empty()) << debug.table();
  });
}

TEST(SameValuesRanks, OnlyTheFirstStepsCompare) {
  run_ranks(2, [](World&) {
    const ProcessMesh mesh = ProcessMesh::of_shape({2}, {"dp"});
    torch::nn::Linear model = make_linear(0.5);
    parallelize(*model, mesh, {});
    const auto gathers = [&] {
      CommDebug debug;
      model(torch::ones({3, 4}));
      shard_tensor(torch::ones({3, 4}), mesh, {Shard(0)});
      return debug.count("all_gather");
    };
    for (int step = 0; step < 3; ++step) {
      EXPECT_EQ(gathers(), 2u) << step;
    }
    EXPECT_EQ(gathers(), 0u);
    dtensor_check_values(5); // two more of the first, five of the second
    EXPECT_EQ(gathers(), 2u);
    EXPECT_THAT(
        refusal([] { dtensor_check_values(-1); }),
        HasSubstr("expected 0 or more"));
  });
}

} // namespace
} // namespace argosy
