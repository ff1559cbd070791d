// Optimizers and clipping on DTensors: as on plain tensors, each rank on its
// part.

#include <gtest/gtest.h>
#include <torch/optim.h>

// After what it needs and does not include.
#include <torch/nn/utils/clip_grad.h>

#include "argosy/comm/group.h"
#include "argosy/comm/traffic.h"
#include "argosy/optim/adagrad.h"
#include "argosy/optim/adam.h"
#include "argosy/optim/ema.h"
#include "argosy/optim/flat_parameters.h"
#include "argosy/optim/gradients.h"
#include "argosy/optim/lamb.h"
#include "argosy/optim/lars.h"
#include "argosy/optim/sgd.h"
#include "tests/dtensor/op_checks.h"

namespace argosy {
namespace {

using argosy::testing::exact_values;
using argosy::testing::run_ranks;
using argosy::testing::same;
using argosy::testing::Tensors;
using comm::OpKind;

// The placements of three parameters and of the batch, on one mesh.
struct Plan {
  ProcessMesh mesh;
  std::vector<Placements> params;
  Placements data;
};

std::vector<Plan> plans() {
  const Placement replicate = Replicate();
  return {
      {ProcessMesh::of_shape({2}),
       {{replicate}, {replicate}, {replicate}},
       {Shard(0)}},
      {ProcessMesh::of_shape({2}),
       {{Shard(1)}, {Shard(0)}, {Shard(0)}},
       {replicate}},
      {ProcessMesh::of_shape({3}),
       {{Shard(0)}, {Shard(0)}, {Shard(0)}},
       {Shard(0)}},
      {ProcessMesh::of_shape({2, 2}),
       {{Shard(0), Shard(1)}, {replicate, Shard(0)}, {Shard(1), Shard(0)}},
       {Shard(0), replicate}}};
}

Tensors plain_params() {
  return {
      (exact_values({4, 8}) / 8).requires_grad_(),
      (exact_values({8}, 1) / 8).requires_grad_(),
      (exact_values({8, 3}, 2) / 8).requires_grad_()};
}

Tensors sharded_params(const Plan& plan) {
  Tensors params = plain_params();
  for (std::size_t i = 0; i < params.size(); ++i) {
    params[i] = shard_tensor(params[i].detach(), plan.mesh, plan.params[i])
                    .requires_grad_();
  }
  return params;
}

at::Tensor loss_of(const Tensors& params, const at::Tensor& x) {
  return (x.matmul(params[0]) + params[1])
      .tanh()
      .matmul(params[2])
      .pow(2)
      .sum();
}

using Step = std::function<void(const Tensors&)>;
using MakeStep = std::function<Step(const Tensors&)>;

template <typename Optimizer, typename Options>
MakeStep stepping(Options options) {
  return [=](const Tensors& params) -> Step {
    const auto optimizer = std::make_shared<Optimizer>(params, options);
    return [optimizer](const Tensors&) { optimizer->step(); };
  };
}

Tensors train(Tensors params, const at::Tensor& x, const MakeStep& make) {
  const Step step = make(params);
  for (int i = 0; i < 3; ++i) {
    for (const at::Tensor& param : params) {
      param.mutable_grad() = at::Tensor();
    }
    loss_of(params, x).backward();
    step(params);
  }
  return params;
}

void check(const MakeStep& make) {
  for (const Plan& plan : plans()) {
    run_ranks(plan.mesh.size(), [&](World&) {
      const at::Tensor x = exact_values({6, 4}, 5) / 4;
      const Tensors expected = train(plain_params(), x, make);
      const Tensors results = train(
          sharded_params(plan), shard_tensor(x, plan.mesh, plan.data), make);
      for (std::size_t i = 0; i < results.size(); ++i) {
        EXPECT_EQ(placements_of(results[i]), plan.params[i]);
        EXPECT_TRUE(
            same(full_tensor(results[i].detach()), expected[i].detach()))
            << plan.mesh << " " << i;
      }
    });
  }
}

TEST(OptimizersRanks, Torch) {
  check(stepping<torch::optim::SGD>(
      torch::optim::SGDOptions(0.01).momentum(0.9).weight_decay(0.1)));
  check(stepping<torch::optim::Adam>(
      torch::optim::AdamOptions(0.01).amsgrad(true)));
  check(stepping<torch::optim::AdamW>(torch::optim::AdamWOptions(0.01)));
  check(stepping<torch::optim::Adagrad>(torch::optim::AdagradOptions(0.01)));
  check(stepping<torch::optim::RMSprop>(
      torch::optim::RMSpropOptions(0.01).momentum(0.5).centered(true)));
}

TEST(OptimizersRanks, Fused) {
  check(stepping<optim::SGD>(optim::SGD::Options(0.01).momentum(0.9)));
  check(stepping<optim::Adam>(optim::Adam::Options(0.01)));
  check(stepping<optim::AdamW>(optim::AdamW::Options(0.01)));
  check(stepping<optim::Adagrad>(optim::Adagrad::Options(0.01)));
}

// Their steps depend on the norm of the whole parameter.
TEST(OptimizersRanks, FusedWithNorms) {
  check(stepping<optim::Lamb>(optim::Lamb::Options(0.01)));
  check(stepping<optim::Lars>(optim::Lars::Options(0.01)));
}

MakeStep clipping(const std::function<void(const Tensors&)>& clip) {
  return [clip](const Tensors& params) -> Step {
    const auto optimizer = std::make_shared<torch::optim::SGD>(params, 0.01);
    return [=](const Tensors& all) {
      clip(all);
      optimizer->step();
    };
  };
}

TEST(OptimizersRanks, Clipping) {
  check(clipping([](const Tensors& params) {
    torch::nn::utils::clip_grad_norm_(params, 0.5);
  }));
  check(clipping([](const Tensors& params) {
    torch::nn::utils::clip_grad_value_(params, 0.25);
  }));
  for (const double type : {1.0, 2.0, double{INFINITY}}) {
    check(clipping([type](const Tensors& params) {
      optim::clip_grad_norm_(params, 0.5, type);
    }));
  }
  check(clipping(
      [](const Tensors& params) { optim::clip_grad_value_(params, 0.25); }));
}

// Sharded parameters with gradients that are sharded alike: nothing is sent. A
// state has as many elements as the part.
TEST(OptimizersRanks, ShardsStepAlone) {
  run_ranks(2, [](World&) {
    const Plan plan = plans()[1];
    const Tensors params = sharded_params(plan);
    const at::Tensor x =
        shard_tensor(exact_values({6, 4}), plan.mesh, plan.data);
    optim::Adam fused(params, optim::Adam::Options(0.01));
    torch::optim::Adam plain(params, torch::optim::AdamOptions(0.01));
    loss_of(params, x).backward();
    const auto before = get_group(0)->traffic().total().calls;
    fused.step();
    plain.step();
    EXPECT_EQ(get_group(0)->traffic().total().calls, before);
    const auto states = fused.state_dict();
    const at::Tensor& state = states.at("0.exp_avg");
    EXPECT_EQ(state.sizes(), params[0].sizes());
    EXPECT_EQ(placements_of(state), placements_of(params[0]));
    EXPECT_EQ(to_local(state).numel(), params[0].numel() / 2);
    fused.load_state_dict(states);
    fused.zero_grad();
    EXPECT_EQ(full_tensor(params[0].grad()).abs().sum().item<float>(), 0);
  });
}

// The norm of all gradients costs one all_reduce of a number.
TEST(OptimizersRanks, NormOfShardsReducesOnce) {
  run_ranks(2, [](World&) {
    const Plan plan = plans()[1];
    const Tensors params = sharded_params(plan);
    const at::Tensor x =
        shard_tensor(exact_values({6, 4}), plan.mesh, plan.data);
    loss_of(params, x).backward();
    const auto before = get_group(0)->traffic().total().calls;
    optim::clip_grad_norm_(params, 0.5);
    EXPECT_EQ(get_group(0)->traffic().total().calls, before + 1);
  });
}

// Each rank averages its parts.
TEST(OptimizersRanks, MovingAverages) {
  const auto values_of = [](const Tensors& params) {
    Tensors values;
    for (const at::Tensor& param : params) {
      values.push_back(
          (is_dtensor(param) ? full_tensor(param.detach()) : param.detach())
              .clone());
    }
    return values;
  };
  // The parameters while the averages are in them, and after.
  const auto averaged = [&](const Tensors& params) {
    const at::NoGradGuard no_grad;
    optim::Ema ema(params, {.decay = 0.5});
    for (int i = 0; i < 3; ++i) {
      for (const at::Tensor& param : params) {
        param.mul_(2);
      }
      ema.update();
    }
    ema.apply();
    Tensors values = values_of(params);
    ema.restore();
    for (const at::Tensor& value : values_of(params)) {
      values.push_back(value);
    }
    return values;
  };
  const Tensors expected = averaged(plain_params());
  for (const Plan& plan : plans()) {
    run_ranks(static_cast<int>(plan.mesh.size()), [&](World&) {
      const Tensors got = averaged(sharded_params(plan));
      for (std::size_t i = 0; i < got.size(); ++i) {
        EXPECT_TRUE(got[i].equal(expected[i])) << i;
      }
    });
  }
}

TEST(OptimizersRanks, RefusesWhatTakesMemory) {
  run_ranks(2, [](World&) {
    const Tensors params = sharded_params(plans()[1]);
    EXPECT_THROW(optim::FlatParameters{params}, InvalidArgument);
  });
}

} // namespace
} // namespace argosy
