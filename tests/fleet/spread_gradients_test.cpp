// Gradients of DTensors that are sent or kept in other types, or compressed,
// against the same strategy with plain parameters.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <map>

#include "argosy/comm/flight/black_box.h"
#include "argosy/comm/flight_record.h"
#include "argosy/fleet/fleet.h"
#include "argosy/optim/adam.h"
#include "argosy/optim/lamb.h"
#include "argosy/optim/sgd.h"
#include "argosy/semi_auto/parallelize.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"

namespace argosy::fleet {
namespace {

using Modify = std::function<void(DistributedStrategy&)>;
using Params = std::map<std::string, at::Tensor>;

constexpr int kSteps = 8;
constexpr int kRows = 12; // 2, 3 and 4 ranks get equal parts

struct WideNetImpl : torch::nn::Module {
  // The first weight is large enough for dgc to compress.
  torch::nn::Linear first =
      register_module("first", torch::nn::Linear(64, 512));
  torch::nn::Linear second =
      register_module("second", torch::nn::Linear(512, 3));

  WideNetImpl() {
    const torch::NoGradGuard no_grad;
    int index = 0;
    for (at::Tensor& each : parameters()) {
      const at::Tensor numbers = torch::arange(each.numel(), torch::kDouble);
      each.copy_(
          torch::sin(numbers * 1.7 + ++index).reshape(each.sizes()) / 10);
    }
  }
  at::Tensor forward(const at::Tensor& x) { return second(first(x).tanh()); }
};
TORCH_MODULE(WideNet);

at::Tensor batch_of(int step) {
  // Without ties, among which dgc would choose by the last digit.
  const at::Tensor numbers = torch::arange(kRows * 64, torch::kDouble);
  return torch::sin(numbers.pow(2) * 0.37 + step)
      .reshape({kRows, 64})
      .to(torch::kFloat);
}

at::Tensor own_rows(const at::Tensor& batch) {
  return batch.chunk(data_num())[data_rank()];
}

struct How {
  bool is_spread = true;
  int mp = 1;
  int sharding = 1; // ranks
  int stage = 1;
  double penalty = 0; // times half the sum of squares, added to the loss
};

// Called after backward and after step.
using Look = std::function<void(WideNetImpl& net, int step, bool stepped)>;

template <typename Optimizer, typename Options>
Params train(
    const Modify& modify,
    const Options& options,
    const How& how = {},
    const Look& look = nullptr) {
  DistributedStrategy strategy;
  strategy.hybrid_configs.mp_degree = how.mp;
  strategy.hybrid_configs.sharding_degree = how.sharding;
  if (how.sharding > 1) {
    strategy.sharding = true;
    strategy.sharding_configs.stage = how.stage;
  }
  modify(strategy);
  init(true, strategy);
  WideNet net;
  if (how.is_spread) {
    parallelize(
        *net,
        hybrid_mesh()->mesh(),
        {.mp_config = ParallelizeConfig::Mp{
             {{"first", ColWiseParallel()}, {"second", RowWiseParallel()}}}});
  }
  Optimizer inner(net->parameters(), options);
  auto model = distributed_model(net);
  auto optimizer = distributed_optimizer(inner);
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    const at::Tensor x =
        own_rows(batch_of(step)).to(net->first->weight.scalar_type());
    const at::Tensor y = model(x).to(torch::kFloat);
    at::Tensor loss = torch::nn::functional::cross_entropy(
        y, own_rows((torch::arange(kRows) + step) % 3));
    for (const at::Tensor& each : net->parameters()) {
      if (how.penalty > 0) {
        loss = loss + each.pow(2).sum() * (how.penalty / 2);
      }
    }
    optimizer.backward(loss);
    if (look) {
      look(*net, step, false);
    }
    optimizer.step();
    if (look) {
      look(*net, step, true);
    }
  }
  const auto all = model.whole();
  Params result;
  for (const auto& each : net->named_parameters()) {
    result[each.key()] = each.value().detach().to(torch::kFloat).clone();
  }
  return result;
}

// What rank 0 of `n` ranks has afterwards.
Params on_ranks(int n, const std::function<Params()>& body) {
  Params result;
  testing::run_ranks(n, [&](World& world) {
    Params own = body();
    if (world.rank() == 0) {
      result = std::move(own);
    }
  });
  return result;
}

double distance(const Params& one, const Params& other) {
  double most = 0;
  for (const auto& [name, value] : one) {
    most = std::max(
        most, (value - other.at(name)).abs().max().template item<double>());
  }
  return most;
}

Params plain_on(int n, const Modify& modify) {
  return on_ranks(n, [&] {
    return train<optim::SGD>(
        modify, optim::SGDOptions(0.5).momentum(0.9), How{.is_spread = false});
  });
}

Params spread_on(int n, const Modify& modify, const How& how = {}) {
  return on_ranks(n, [&] {
    return train<optim::SGD>(modify, optim::SGDOptions(0.5).momentum(0.9), how);
  });
}

void nothing(DistributedStrategy&) {}
void use_fp16(DistributedStrategy& s) {
  s.fp16_allreduce = true;
}
void use_bf16(DistributedStrategy& s) {
  s.bf16_allreduce = true;
}
void use_power_sgd(DistributedStrategy& s) {
  s.power_sgd = true;
  s.power_sgd_configs.rank = 1;
  s.power_sgd_configs.start_step = 2;
}
void use_dgc(DistributedStrategy& s) {
  s.dgc = true;
  s.dgc_configs.rampup_begin_step = 2;
  s.dgc_configs.rampup_step = 4;
  s.dgc_configs.sparsity = {0.5, 0.9};
}

// Rounded sums, as close to the exact ones as those of plain parameters.
TEST(SpreadGradients, AreSentAs16Bits) {
  for (const int n : {2, 3}) {
    const Params exact = plain_on(n, nothing);
    for (const auto& [modify, tolerance] :
         std::vector<std::pair<Modify, double>>{
             {use_fp16, 1e-3}, {use_bf16, 1e-2}}) {
      const Params plain = plain_on(n, modify);
      const Params spread = spread_on(n, modify);
      EXPECT_GT(distance(plain, exact), 1e-7) << n;
      EXPECT_GT(distance(spread, exact), 1e-7) << n;
      EXPECT_LT(distance(spread, exact), tolerance) << n;
      EXPECT_LT(
          distance(spread, plain), n == 2 ? 1e-6 : distance(plain, exact) * 3)
          << n;
    }
  }
}

TEST(SpreadGradients, AreSentAs16BitsOverSeveralAxes) {
  const Params exact = plain_on(2, nothing);
  const Params sent = plain_on(2, use_bf16);
  // Products add up in another order, and may be rounded to another number.
  EXPECT_LT(distance(spread_on(4, use_bf16, {.mp = 2}), sent), 1e-2);
  for (const int stage : {1, 2, 3}) {
    const Params sharded =
        spread_on(4, use_bf16, {.mp = 2, .sharding = 2, .stage = stage});
    EXPECT_LT(distance(sharded, sent), 1e-2) << stage;
    EXPECT_GT(distance(sharded, exact), 1e-7) << stage;
  }
}

// Bytes of reductions between backward and the end of step().
std::uint64_t reduced_bytes(const Modify& modify) {
  std::uint64_t bytes = 0;
  testing::run_ranks(2, [&](World& world) {
    const auto box = comm::black_box_of(world);
    std::size_t seen = 0;
    train<optim::SGD>(
        modify,
        optim::SGDOptions(0.5).momentum(0.9),
        How{},
        [&](WideNetImpl&, int step, bool stepped) {
          const auto record = box->record();
          if (world.rank() == 0 && step == kSteps - 1 && stepped) {
            for (std::size_t i = seen; i < record.operations.size(); ++i) {
              bytes += record.operations[i].call.bytes;
            }
          }
          seen = record.operations.size();
        });
  });
  return bytes;
}

TEST(SpreadGradients, SendFewerBytes) {
  const std::uint64_t whole = reduced_bytes(nothing);
  EXPECT_EQ(whole, 4u * (64 * 512 + 512 + 512 * 3 + 3));
  EXPECT_EQ(reduced_bytes(use_fp16), whole / 2);
  EXPECT_LT(reduced_bytes(use_power_sgd), whole / 4);
  // 10 % of the entries of the first weight, as an index and a value.
  EXPECT_LT(reduced_bytes(use_dgc), whole * 2 / 3);
}

// The hook sees what it sees in DataParallel, but for the order of roundings.
TEST(SpreadGradients, AreCompressedAsThoseOfPlainParameters) {
  for (const Modify& modify : {Modify(use_power_sgd), Modify(use_dgc)}) {
    for (const int n : {2, 3, 4}) {
      const Params plain = plain_on(n, modify);
      EXPECT_GT(distance(plain, plain_on(n, nothing)), 1e-3) << n;
      EXPECT_LT(distance(spread_on(n, modify), plain), 1e-4) << n;
    }
    EXPECT_LT(
        distance(
            spread_on(4, modify, {.sharding = 4, .stage = 1}),
            plain_on(4, modify)),
        1e-4);
  }
}

// Where all is sent, parts of tensor parallelism train as the whole does.
TEST(SpreadGradients, AreCompressedPartByPart) {
  const auto lossless = [](DistributedStrategy& s) {
    use_dgc(s);
    s.dgc_configs.sparsity = {0.0};
  };
  const Params exact = plain_on(2, nothing);
  const Params sent = plain_on(2, lossless);
  EXPECT_LT(distance(spread_on(4, lossless, {.mp = 2}), sent), 1e-4);
  EXPECT_LT(
      distance(spread_on(4, lossless, {.mp = 2, .sharding = 2}), sent), 1e-4);
  const auto wide = [](DistributedStrategy& s) {
    use_power_sgd(s);
    s.power_sgd_configs.rank = 24; // 12 rows have no more
  };
  EXPECT_LT(distance(spread_on(4, wide, {.mp = 2}), exact), 1e-4);
}

// Decay is a term of the gradient that goes into the momentum.
TEST(DgcDecay, IsThatOfAPenaltyOfTheLoss) {
  const auto trained =
      [](int n, const Modify& modify, double decay, const How& how) {
        return on_ranks(n, [&] {
          return train<optim::SGD>(
              modify,
              optim::SGDOptions(0.5).momentum(0.9).weight_decay(decay),
              how);
        });
      };
  const auto merged = [](DistributedStrategy& s) {
    use_dgc(s);
    s.gradient_merge = true;
    s.gradient_merge_configs.k_steps = 2;
  };
  const auto sums = [](DistributedStrategy& s) {
    use_dgc(s);
    s.gradient_scale_configs.scale_strategy = "sum";
  };
  for (const auto& [modify, factor] : std::vector<std::pair<Modify, double>>{
           {use_dgc, 1}, {merged, 1}, {sums, 2}}) {
    const Params expected =
        trained(2, modify, 0, {.is_spread = false, .penalty = 0.02 / factor});
    EXPECT_GT(
        distance(trained(2, modify, 0, {.is_spread = false}), expected), 1e-3);
    for (const How& how :
         {How{.is_spread = false},
          How{.is_spread = false, .sharding = 2},
          How{},
          How{.sharding = 2}}) {
      EXPECT_LT(distance(trained(2, modify, 0.02, how), expected), 1e-4)
          << how.is_spread << how.sharding << factor;
    }
  }
}

TEST(SpreadGradients, OneRankWithDataCompressesNothing) {
  for (const Modify& modify : {Modify(use_power_sgd), Modify(use_dgc)}) {
    EXPECT_LT(
        distance(spread_on(2, modify, {.mp = 2}), plain_on(1, nothing)), 1e-5);
  }
}

void use_main_grad(DistributedStrategy& s) {
  s.amp = true;
  s.amp_configs.use_pure_bf16 = true;
  s.amp_configs.use_main_grad = true;
  s.gradient_merge = true;
  s.gradient_merge_configs.k_steps = 4;
}

// The gradient that accumulates over passes with losses of 256, 1, 1, 1 times
// the same: bfloat16 would have 256.
at::Tensor merged_gradient(const How& how) {
  DistributedStrategy strategy;
  strategy.hybrid_configs.mp_degree = how.mp;
  strategy.hybrid_configs.sharding_degree = how.sharding;
  strategy.sharding = how.sharding > 1;
  if (how.sharding > 1) {
    strategy.sharding_configs.stage = how.stage;
  }
  use_main_grad(strategy);
  init(true, strategy);
  torch::nn::Linear layer(4, 4);
  torch::nn::init::ones_(layer->weight);
  torch::nn::init::ones_(layer->bias);
  torch::nn::Sequential net(layer);
  parallelize(
      *net,
      hybrid_mesh()->mesh(),
      {.mp_config = ParallelizeConfig::Mp{{{"0", ColWiseParallel()}}}});
  optim::SGD sgd(net->parameters(), 1e-3);
  auto model = distributed_model(net);
  auto optimizer = distributed_optimizer(sgd);
  for (const int weight : {256, 1, 1, 1}) {
    const at::Tensor x = torch::ones({1, 4}, torch::kBFloat16);
    (model(x).sum() * weight).backward();
  }
  EXPECT_EQ(layer->weight.scalar_type(), torch::kBFloat16);
  return full_tensor(layer->weight.grad());
}

TEST(SpreadGradients, AccumulateInFloat32) {
  for (const How& how :
       {How{},
        How{.mp = 2},
        How{.sharding = 2, .stage = 1},
        How{.sharding = 2, .stage = 2},
        How{.sharding = 2, .stage = 3},
        How{.mp = 2, .sharding = 2, .stage = 3}}) {
    testing::run_ranks(4, [&](World&) {
      const at::Tensor gradient = merged_gradient(how);
      EXPECT_EQ(gradient.scalar_type(), torch::kFloat);
      EXPECT_TRUE(torch::equal(gradient, torch::full({4, 4}, 259.0f)))
          << gradient << how.mp << how.sharding << how.stage;
    });
  }
}

// Up to a digit of bfloat16: products add up in another order.
template <typename Optimizer, typename Options>
void check_main_grads(const Options& options) {
  const auto trained = [&](int n, const How& how) {
    return on_ranks(
        n, [&] { return train<Optimizer>(use_main_grad, options, how); });
  };
  const Params plain = trained(2, {.is_spread = false});
  EXPECT_LT(distance(trained(2, {}), plain), 4e-3);
  EXPECT_LT(distance(trained(4, {.mp = 2}), plain), 4e-3);
  for (const int stage : {1, 2, 3}) {
    EXPECT_LT(
        distance(trained(2, {.sharding = 2, .stage = stage}), plain), 4e-3)
        << stage;
  }
}

TEST(SpreadGradients, StepMasterWeightsInFloat32) {
  check_main_grads<optim::SGD>(optim::SGDOptions(0.5).momentum(0.9));
  check_main_grads<optim::Lamb>(optim::LambOptions(1e-2));
}

} // namespace
} // namespace argosy::fleet
