// What loops without distributed_model() use.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include <map>
#include <tuple>

#include "argosy/compat/fleet_utils.h"
#include "argosy/compat/hybrid_communicate_group.h"
#include "argosy/fleet/fleet.h"
#include "argosy/testing/ranks.h"
#include "argosy/training/parameter_marks.h"
#include "argosy/world/world.h"
#include "tests/support/refusal.h"

namespace argosy::fleet::utils {
namespace {

using ::testing::HasSubstr;

void init_hybrid(int dp, int sharding, int sep, int mp) {
  DistributedStrategy strategy;
  strategy.hybrid_configs.dp_degree = dp;
  strategy.hybrid_configs.sharding_degree = sharding;
  strategy.hybrid_configs.sep_degree = sep;
  strategy.hybrid_configs.mp_degree = mp;
  init(true, strategy);
}

at::Tensor with_grad(std::vector<std::int64_t> sizes, const at::Tensor& value) {
  at::Tensor param = torch::zeros(sizes, value.scalar_type()).requires_grad_();
  param.mutable_grad() = torch::zeros_like(param).detach() + value;
  return param;
}

bool is_all(const at::Tensor& tensor, double value) {
  return tensor.eq(value).all().item<bool>();
}

// ---- Gradients --------------------------------------------------------------

double mean_of(const std::vector<int>& ranks) {
  double sum = 0;
  for (const int rank : ranks) {
    sum += rank;
  }
  return sum / static_cast<double>(ranks.size());
}

TEST(FusedAllReduceGradients, AveragesOverDataAndSequences) {
  testing::run_ranks(8, [](World& world) {
    init_hybrid(2, 1, 2, 2);
    const auto rank = torch::tensor(static_cast<float>(world.rank()));
    const Tensors params = {
        with_grad({3}, rank),
        with_grad({2, 5}, rank.to(torch::kDouble)),
        torch::zeros({4}, torch::requires_grad()),
        with_grad({7}, rank + 1)};
    fused_allreduce_gradients(params);
    const double mean = mean_of(
        get_hybrid_communicate_group()->get_dp_sep_parallel_group()->ranks());
    EXPECT_NE(mean, 3.5); // that of all
    EXPECT_TRUE(is_all(params[0].grad(), mean));
    EXPECT_TRUE(is_all(params[1].grad(), mean));
    EXPECT_FALSE(params[2].grad().defined());
    EXPECT_TRUE(is_all(params[3].grad(), mean + 1));
  });
}

TEST(FusedAllReduceGradients, SumsAndScalesOverAGroup) {
  testing::run_ranks(4, [](World& world) {
    init_hybrid(4, 1, 1, 1);
    const auto rank = torch::tensor(static_cast<float>(world.rank()));
    for (const std::size_t bucket : {1, 50, 1000}) {
      const Tensors params = {
          with_grad({3}, rank), with_grad({8}, rank), with_grad({8}, rank)};
      fused_allreduce_gradients_with_group(params, nullptr, bucket, 0.5);
      for (const at::Tensor& param : params) {
        EXPECT_TRUE(is_all(param.grad(), 3)) << bucket;
      }
    }
  });
}

// Ranks have different rows, one of them in common.
TEST(FusedAllReduceGradients, TakesSparseOnes) {
  for (const int n : {1, 2, 3}) {
    testing::run_ranks(n, [n](World& world) {
      for (const std::optional<double> scale :
           {std::optional<double>(), std::optional(0.5)}) {
        at::Tensor table = torch::zeros({5, 2}, torch::requires_grad());
        at::Tensor dense = torch::zeros({3}, torch::requires_grad());
        const auto loss_of = [&](int rank) {
          const at::Tensor rows = torch::tensor({0L, 1L + rank});
          return (torch::embedding(table, rows, -1, false, true) * (rank + 1))
                     .sum() +
              dense.sum() * rank;
        };
        loss_of(world.rank()).backward();
        EXPECT_TRUE(table.grad().is_sparse());
        fused_allreduce_gradients_with_group(
            {table, dense}, nullptr, 1000, scale);
        const at::Tensor got = table.grad().to_dense();
        const at::Tensor got_dense = dense.grad().clone();
        table.mutable_grad().reset();
        dense.mutable_grad().reset();
        for (int rank = 0; rank < n; ++rank) {
          loss_of(rank).backward();
        }
        const double factor = scale.value_or(1.0 / n);
        EXPECT_TRUE(torch::allclose(got, table.grad().to_dense() * factor));
        EXPECT_TRUE(torch::allclose(got_dense, dense.grad() * factor));
      }
    });
  }
}

TEST(FusedAllReduceGradients, RefusesOtherSparseOnes) {
  testing::run_ranks(1, [](World&) {
    at::Tensor param = torch::zeros({3, 3}, torch::requires_grad());
    param.mutable_grad() = torch::ones({3, 3}).to_sparse();
    EXPECT_THAT(
        testing::refusal(
            [&] { fused_allreduce_gradients_with_group({param}); }),
        HasSubstr("sparse in 2 dims"));
  });
}

// ---- Parameters -------------------------------------------------------------

struct NetImpl : torch::nn::Module {
  torch::nn::Linear cut = register_module("cut", torch::nn::Linear(2, 3));
  torch::nn::BatchNorm1d norm =
      register_module("norm", torch::nn::BatchNorm1d(3));

  explicit NetImpl(int rank) {
    const torch::NoGradGuard no_grad;
    for (const at::Tensor& param : parameters()) {
      param.fill_(rank);
    }
    norm->running_mean.fill_(rank);
    set_marks(cut->weight, {.is_distributed = true});
  }
};
TORCH_MODULE(Net);

using Broadcast = void (*)(torch::nn::Module&, const HybridMeshPtr&);

TEST(BroadcastParameters, GivesThoseOfTheFirstRankOnTheAxis) {
  const std::map<std::string, Broadcast> of = {
      {"data", broadcast_dp_parameters},
      {"sharding", broadcast_sharding_parameters},
      {"sep", broadcast_sep_parameters},
      {"model", broadcast_mp_parameters}};
  const std::vector<std::array<int, 4>> worlds = {
      {2, 2, 1, 2}, {2, 1, 2, 2}, {1, 2, 1, 2}, {1, 4, 1, 1}};
  for (const auto& [dp, sharding, sep, mp] : worlds) {
    testing::run_ranks(dp * sharding * sep * mp, [&](World& world) {
      init_hybrid(dp, sharding, sep, mp);
      for (const auto& [axis, broadcast] : of) {
        Net net(world.rank());
        broadcast(*net, nullptr);
        const int first = get_hybrid_communicate_group()->src_rank_on(axis);
        EXPECT_TRUE(is_all(net->cut->bias, first)) << axis;
        EXPECT_TRUE(is_all(net->norm->running_mean, first)) << axis;
        EXPECT_TRUE(
            is_all(net->cut->weight, axis == "model" ? world.rank() : first))
            << axis;
      }
    });
  }
}

TEST(BroadcastParameters, NeedsATopology) {
  testing::run_ranks(1, [](World&) {
    Net net(0);
    EXPECT_THAT(
        testing::refusal([&] { broadcast_dp_parameters(*net); }),
        HasSubstr("call fleet::init() first"));
  });
}

// ---- Inputs -----------------------------------------------------------------

TEST(BroadcastInputData, ReachesTensorsInListsMapsAndTuples) {
  testing::run_ranks(8, [](World& world) {
    init_hybrid(2, 1, 1, 4);
    const auto hcg = get_hybrid_communicate_group();
    const at::Tensor data = torch::full({4, 2}, world.rank(), torch::kLong);
    at::Tensor x = data.t();
    std::vector<at::Tensor> list = {data[0], data[1].to(torch::kFloat)};
    std::map<std::string, at::Tensor> map = {{"mask", data > 2}};
    std::tuple<at::Tensor, int, std::vector<at::Tensor>> tuple = {
        data, world.rank(), {data[2]}};
    broadcast_input_data(hcg, x, list, map, tuple);
    const int first = hcg->get_model_parallel_group_src_rank();
    EXPECT_TRUE(is_all(x, first));
    EXPECT_EQ(x.sizes(), (std::vector<std::int64_t>{2, 4}));
    EXPECT_TRUE(is_all(list[0], first));
    EXPECT_TRUE(is_all(list[1], first));
    EXPECT_TRUE(is_all(map.at("mask"), first > 2));
    EXPECT_TRUE(is_all(std::get<0>(tuple), first));
    EXPECT_EQ(std::get<1>(tuple), world.rank()); // no tensor
    EXPECT_TRUE(is_all(std::get<2>(tuple)[0], first));
    EXPECT_TRUE(is_all(data, world.rank())); // nobody has written to it
  });
}

TEST(BroadcastInputData, RefusesOtherShapesOnAllRanks) {
  testing::run_ranks(4, [](World& world) {
    init_hybrid(1, 1, 1, 4);
    at::Tensor x = torch::zeros({2});
    at::Tensor y = torch::zeros({world.rank() == 2 ? 3 : 2});
    EXPECT_THAT(
        testing::refusal([&] {
          broadcast_input_data(get_hybrid_communicate_group(), x, y);
        }),
        HasSubstr("the inputs of the ranks differ: on rank 2 tensor 1 is "
                  "input 1 Float [3]"));
  });
}

// ---- Inputs of models -------------------------------------------------------

TEST(InputCheckRanks, RanksOfTensorParallelismMustGetTheSameInputs) {
  testing::run_ranks(4, [](World& world) {
    init_hybrid(2, 1, 1, 2);
    auto model = distributed_model(torch::nn::Linear(3, 2));
    at::Tensor own = torch::full({2, 3}, float(data_rank()));
    EXPECT_EQ(model(own).size(0), 2); // differs by data rank, as it should
    own = torch::full({2, 3}, float(world.rank()));
    EXPECT_THAT(
        testing::refusal([&] { model(own); }),
        ::testing::AllOf(
            HasSubstr("the inputs must be the same on the ranks of a tensor"),
            HasSubstr(world.rank() < 2 ? "values on rank 1" : "on rank 3"),
            HasSubstr("fleet::data_rank()"),
            HasSubstr("broadcast_input_data()")));
    broadcast_input_data(nullptr, own);
    EXPECT_EQ(model(own).size(0), 2);
  });
}

} // namespace
} // namespace argosy::fleet::utils
