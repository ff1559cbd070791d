// Local SGD with optimizers that keep moments, against one process that trains
// all copies and averages them by hand.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "argosy/common/file.h"
#include "argosy/fleet/fleet.h"
#include "argosy/optim/adagrad.h"
#include "argosy/optim/adam.h"
#include "argosy/optim/lamb.h"
#include "argosy/optim/lars.h"
#include "argosy/optim/sgd.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"
#include "tests/support/refusal.h"

namespace argosy::fleet {
namespace {

using Params = std::vector<at::Tensor>;

constexpr int kSteps = 7; // the last one averages
constexpr int kEvery = 3; // steps between averages

torch::nn::Linear make_net() {
  torch::nn::Linear net(6, 4);
  net->to(torch::kDouble);
  const torch::NoGradGuard no_grad;
  net->weight.copy_((torch::arange(24) % 7 - 3).reshape({4, 6}) / 5.0);
  net->bias.copy_(torch::arange(4) / 3.0);
  return net;
}

at::Tensor loss_of(const at::Tensor& y, int step, int rank) {
  return (y - (step + 2 * rank) % 5).pow(2).mean();
}

at::Tensor input_of(int step, int rank) {
  const at::Tensor numbers = torch::arange(12) * 5 + 3 * step + 7 * rank;
  return (numbers % 11 - 5).reshape({2, 6}).to(torch::kDouble) / 4;
}

// The mean over copies of what each has.
void average(const std::vector<Params>& copies) {
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < copies[0].size(); ++i) {
    at::Tensor sum = torch::zeros_like(copies[0][i]);
    for (const Params& copy : copies) {
      sum += copy[i];
    }
    for (const Params& copy : copies) {
      copy[i].copy_(sum / static_cast<double>(copies.size()));
    }
  }
}

template <typename Optimizer, typename Options>
Params by_hand(int n, const Options& options, bool averages_moments) {
  std::vector<torch::nn::Linear> nets;
  std::vector<std::unique_ptr<Optimizer>> optimizers;
  for (int rank = 0; rank < n; ++rank) {
    nets.push_back(make_net());
    optimizers.push_back(
        std::make_unique<Optimizer>(nets.back()->parameters(), options));
  }
  for (int step = 0; step < kSteps; ++step) {
    std::vector<Params> values(n);
    std::vector<Params> moments(n);
    for (int rank = 0; rank < n; ++rank) {
      optimizers[rank]->zero_grad();
      loss_of(nets[rank](input_of(step, rank)), step, rank).backward();
      optimizers[rank]->step();
      values[rank] = nets[rank]->parameters();
      for (const auto& [name, state] : optimizers[rank]->state_dict()) {
        if (!name.ends_with(".step")) {
          moments[rank].push_back(state);
        }
      }
    }
    if (step % kEvery == 0) { // the first one too: begin_step is 1
      average(values);
      if (averages_moments) {
        average(moments);
      }
    }
  }
  return nets[0]->parameters();
}

template <typename Inner, typename Options>
Params by_fleet(const std::string& json, const Options& options, int rank) {
  init(true, DistributedStrategy::from_json(json));
  torch::nn::Linear net = make_net();
  Inner inner(net->parameters(), options);
  auto model = distributed_model(net);
  auto optimizer = distributed_optimizer(inner);
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    optimizer.minimize(loss_of(model(input_of(step, rank)), step, rank));
  }
  const auto whole = model.whole();
  Params result;
  for (const at::Tensor& each : net->parameters()) {
    result.push_back(each.detach().clone());
  }
  return result;
}

std::string json_of(const std::string& more = "") {
  return R"({"localsgd": true, "localsgd_configs": {"k_steps": 3})" + more +
      "}";
}

// `Hand` is the optimizer of the oracle, `Inner` that which fleet is given.
template <typename Hand, typename Inner, typename HandOptions, typename Options>
void check(
    const std::string& more,
    const HandOptions& by_hand_options,
    const Options& options,
    bool averages_moments = true) {
  for (const int n : {2, 3}) {
    const Params expected = by_hand<Hand>(n, by_hand_options, averages_moments);
    testing::run_ranks(n, [&](World& world) {
      const Params got = by_fleet<Inner>(json_of(more), options, world.rank());
      for (std::size_t i = 0; i < got.size(); ++i) {
        EXPECT_TRUE(torch::allclose(got[i], expected[i], 1e-7, 1e-9))
            << more << " " << n << "\n"
            << got[i] << "\n"
            << expected[i];
      }
    });
  }
}

TEST(LocalMoments, OfAdam) {
  const auto adam = optim::AdamOptions(0.05);
  check<optim::Adam, optim::Adam>("", adam, adam);
  check<optim::Adam, torch::optim::Adam>(
      "", adam, torch::optim::AdamOptions(0.05));
  const auto adamw = optim::AdamWOptions(0.05).amsgrad(true);
  check<optim::AdamW, optim::AdamW>("", adamw, adamw);
}

TEST(LocalMoments, OfAdagrad) {
  const auto options = optim::AdagradOptions(0.1);
  check<optim::Adagrad, optim::Adagrad>("", options, options);
  check<optim::Adagrad, torch::optim::Adagrad>(
      "", options, torch::optim::AdagradOptions(0.1));
}

TEST(LocalMoments, OfLarsAndLamb) {
  const auto momentum = torch::optim::SGDOptions(0.5).momentum(0.9);
  check<optim::Lars, torch::optim::SGD>(
      R"(, "lars": true, "lars_configs": {"lars_coeff": 0.1})",
      optim::LarsOptions(0.5).momentum(0.9).lars_coeff(0.1).weight_decay(
          0.0005),
      momentum);
  check<optim::Lamb, torch::optim::Adam>(
      R"(, "lamb": true)",
      optim::LambOptions(0.05).eps(1e-8),
      torch::optim::AdamOptions(0.05));
}

TEST(LocalMoments, OfSgdStayTheRanksOwn) {
  const auto options = optim::SGDOptions(0.05).momentum(0.9);
  check<optim::SGD, optim::SGD>("", options, options, false);
}

// Two copies of a model that two ranks shard, with states in a file or not.
TEST(LocalMoments, OfShards) {
  const TempDir folder;
  const auto options = optim::AdamOptions(0.05);
  const Params expected = by_hand<optim::Adam>(2, options, true);
  for (const std::string& offload :
       {std::string(),
        R"(, "offload": true, "offload_path": ")" + folder.path().string() +
            R"(")"}) {
    testing::run_ranks(4, [&](World& world) {
      // Ranks that share a copy have the same data, so it trains as one rank.
      const Params got = by_fleet<optim::Adam>(
          json_of(
              R"(, "hybrid_configs": {"dp_degree": 2, "sharding_degree": 2},)"
              R"( "sharding_configs": {"stage": 2)" +
              offload + "}"),
          options,
          world.rank() / 2);
      for (std::size_t i = 0; i < got.size(); ++i) {
        EXPECT_TRUE(torch::allclose(got[i], expected[i], 1e-7, 1e-9)) << i;
      }
    });
  }
}

// A rank that has not stepped a parameter takes part in the average.
TEST(LocalMoments, OfParametersThatSomeRanksDoNotUse) {
  testing::run_ranks(2, [](World& world) {
    init(true, DistributedStrategy::from_json(json_of()));
    torch::nn::Linear net = make_net();
    optim::Adam adam(net->parameters(), 0.05);
    auto model = distributed_model(net);
    auto optimizer = distributed_optimizer(adam);
    net->bias.requires_grad_(world.rank() == 0);
    optimizer.minimize(loss_of(model(input_of(0, 0)), 0, 0)); // averages
    const auto states = adam.state_dict();
    EXPECT_EQ(states.contains("1.exp_avg"), world.rank() == 0);
    if (world.rank() == 0) {
      const at::Tensor whole = net->bias.grad() * 0.1; // 1 - beta
      EXPECT_TRUE(torch::allclose(states.at("1.exp_avg"), whole / 2));
    }
  });
}

struct OwnOptimizer : torch::optim::Optimizer {
  explicit OwnOptimizer(std::vector<at::Tensor> params)
      : Optimizer(
            {torch::optim::OptimizerParamGroup(std::move(params))},
            std::make_unique<torch::optim::SGDOptions>(0.1)) {}
  at::Tensor step(LossClosure = nullptr) override { return {}; }
};

TEST(LocalMoments, MustBeKnown) {
  testing::run_ranks(1, [](World&) {
    init(true, DistributedStrategy::from_json(json_of()));
    torch::nn::Linear net = make_net();
    OwnOptimizer own(net->parameters());
    EXPECT_THAT(
        testing::refusal([&] { distributed_optimizer(own); }),
        ::testing::HasSubstr("localsgd averages the moments"));
  });
}

} // namespace
} // namespace argosy::fleet
