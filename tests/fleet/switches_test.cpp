// Every switch of a strategy against the same made by hand from plain classes:
// parameters after some steps are equal to the last bit.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include <cmath>
#include <functional>
#include <limits>

#include "argosy/comm/traffic.h"
#include "argosy/data_parallel/compression.h"
#include "argosy/data_parallel/sync_batch_norm.h"
#include "argosy/fleet/fleet.h"
#include "argosy/optim/adam.h"
#include "argosy/optim/ema.h"
#include "argosy/optim/grad_scaler.h"
#include "argosy/optim/gradient_merge.h"
#include "argosy/optim/gradients.h"
#include "argosy/optim/lamb.h"
#include "argosy/optim/lars.h"
#include "argosy/optim/local_sgd.h"
#include "argosy/optim/parameter_groups.h"
#include "argosy/optim/sgd.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"

namespace argosy::fleet {
namespace {

constexpr int kSteps = 12;

struct NetImpl : torch::nn::Module {
  // The first weight is large enough for dgc to compress.
  torch::nn::Linear first =
      register_module("first", torch::nn::Linear(64, 256));
  torch::nn::BatchNorm1d norm{nullptr};
  torch::nn::Linear second =
      register_module("second", torch::nn::Linear(256, 3));
  torch::nn::Linear spare{nullptr};

  explicit NetImpl(bool with_norm = false, bool with_spare = false) {
    if (with_norm) {
      norm = register_module("norm", torch::nn::BatchNorm1d(256));
    }
    if (with_spare) {
      spare = register_module("spare", torch::nn::Linear(2, 2));
    }
  }

  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = first(x);
    return second((norm ? norm(y) : y).tanh());
  }
};
TORCH_MODULE(Net);

using Modify = std::function<void(DistributedStrategy&)>;
using Params = std::vector<at::Tensor>;

// Differs by rank: rank 0's must count.
void set_weights(torch::nn::Module& module, int rank) {
  const at::NoGradGuard no_grad;
  int index = rank;
  for (auto& parameter : module.parameters()) {
    parameter.copy_(
        ((torch::arange(parameter.numel()) * 37 + 11 * ++index) % 23 - 11)
            .to(parameter.scalar_type())
            .reshape(parameter.sizes()) /
        200);
  }
}

at::Tensor input_of(int step, int rank) {
  return ((torch::arange(4 * 64) * 29 + 7 * step + 3 * rank) % 19 - 9)
             .to(torch::kFloat)
             .reshape({4, 64}) /
      10;
}

template <typename Model>
at::Tensor loss_of(Model& model, int step, int rank) {
  const at::Tensor x = input_of(step, rank);
  return torch::nn::functional::mse_loss(model(x), x.slice(1, 0, 3));
}

struct Task {
  bool with_norm = false;
  bool with_spare = false;
  bool optimizer_first = false;
  int steps = kSteps;
};

Net net_of(const World& world, const Task& task) {
  Net net(task.with_norm, task.with_spare);
  set_weights(*net, world.rank());
  return net;
}

template <typename Optimizer, typename Options>
Params by_fleet(
    World& world,
    const Modify& modify,
    const Options& options,
    const Task& task = {}) {
  DistributedStrategy strategy;
  modify(strategy);
  const auto fleet = init(true, strategy);
  Net net = net_of(world, task);
  Optimizer inner(net->parameters(), options);
  std::optional<DistributedModel<Net>> model;
  if (!task.optimizer_first) {
    model.emplace(fleet->distributed_model(net));
  }
  DistributedOptimizer optimizer = fleet->distributed_optimizer(inner);
  if (task.optimizer_first) {
    model.emplace(fleet->distributed_model(net));
  }
  for (int step = 0; step < task.steps; ++step) {
    optimizer.zero_grad();
    optimizer.minimize(loss_of(*model, step, world.rank()));
  }
  return net->parameters();
}

using HandModel = DataParallel<Net>;
using Train = std::function<void(Net& net, HandModel& model, int rank)>;

Params by_hand(
    World& world,
    const Train& train,
    DataParallelOptions options = {},
    const Task& task = {}) {
  Net net = net_of(world, task);
  if (task.with_norm) {
    convert_sync_batchnorm(*net);
  }
  HandModel model(net, std::move(options));
  train(net, model, world.rank());
  return net->parameters();
}

void expect_equal(const Params& a, const Params& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(torch::equal(a[i], b[i])) << "parameter " << i;
  }
}

// The plain loop.
template <typename Optimizer, typename Options>
Train plain(const Options& options) {
  return [options](Net& net, HandModel& model, int rank) {
    Optimizer optimizer(net->parameters(), options);
    for (int step = 0; step < kSteps; ++step) {
      optimizer.zero_grad();
      loss_of(model, step, rank).backward();
      optimizer.step();
    }
  };
}

optim::SGDOptions momentum() {
  return optim::SGDOptions(0.05).momentum(0.9);
}

class Switches : public ::testing::TestWithParam<int> {
 protected:
  void on_ranks(const std::function<void(World&)>& body) const {
    argosy::testing::run_ranks(GetParam(), body);
  }

  // With momentum SGD.
  void check(
      const Modify& modify,
      const Train& train,
      const DataParallelOptions& options = {},
      const Task& task = {}) const {
    on_ranks([&](World& world) {
      expect_equal(
          by_fleet<optim::SGD>(world, modify, momentum(), task),
          by_hand(world, train, options, task));
    });
  }

  // Hooks have a state: each rank makes its own.
  void check_hook(
      const Modify& modify,
      const std::function<std::shared_ptr<data_parallel::BucketHook>()>& hook) {
    on_ranks([&](World& world) {
      expect_equal(
          by_fleet<optim::SGD>(world, modify, momentum()),
          by_hand(
              world,
              plain<optim::SGD>(momentum()),
              DataParallelOptions{.hook = hook()}));
    });
  }
};
INSTANTIATE_TEST_SUITE_P(Ranks, Switches, ::testing::Values(1, 2, 3));

// ---- How gradients are sent -------------------------------------------------

TEST_P(Switches, NoneIsDataParallel) {
  check([](auto&) {}, plain<optim::SGD>(momentum()));
}

TEST_P(Switches, TorchsOptimizersGoToo) {
  on_ranks([](World& world) {
    expect_equal(
        by_fleet<torch::optim::SGD>(
            world, [](auto&) {}, momentum()),
        by_hand(world, plain<torch::optim::SGD>(momentum())));
  });
}

TEST_P(Switches, FusionFollowsTheStrategy) {
  on_ranks([](World& world) {
    const auto num_buckets = [&](const Modify& modify) {
      DistributedStrategy strategy;
      modify(strategy);
      init(true, strategy);
      const auto model = distributed_model(net_of(world, {}));
      return dynamic_cast<data_parallel::DataParallelCore&>(*model.core())
          .plan()
          .buckets.size();
    };
    const std::size_t some = world.size() > 1 ? 1 : 0;
    EXPECT_EQ(num_buckets([](auto&) {}), some);
    EXPECT_EQ(
        num_buckets([](auto& s) { s.fuse_all_reduce_ops = false; }), 4 * some);
    EXPECT_EQ(
        num_buckets([](auto& s) {
          s.fuse_grad_size_in_MB = 0.001;
          s.last_comm_group_size_MB = 0.0001;
        }),
        4 * some);
  });
}

TEST_P(Switches, HalvesAndBfloat16) {
  check_hook([](auto& s) { s.fp16_allreduce = true; }, fp16_compression);
  check_hook([](auto& s) { s.bf16_allreduce = true; }, bf16_compression);
}

TEST_P(Switches, PowerSgd) {
  check_hook(
      [](auto& s) {
        s.power_sgd = true;
        s.power_sgd_configs.rank = 1;
        s.power_sgd_configs.start_step = 3;
      },
      [] { return power_sgd({.rank = 1, .start_step = 3}); });
}

void use_dgc(DistributedStrategy& strategy) {
  strategy.dgc = true;
  strategy.dgc_configs.rampup_begin_step = 2;
  strategy.dgc_configs.rampup_step = 4;
  strategy.dgc_configs.sparsity = {0.5, 0.9};
}

DgcOptions dgc_options() {
  DgcOptions options;
  options.rampup_begin_step = 2;
  options.rampup_step = 4;
  options.sparsity = {0.5, 0.9};
  options.momentum = 0.9;
  return options;
}

// The optimizer has no momentum any more; on one rank nothing is sent, and it
// keeps it.
TEST_P(Switches, DeepGradientCompressionTakesTheMomentum) {
  on_ranks([](World& world) {
    const auto options =
        world.size() > 1 ? optim::SGDOptions(0.05) : momentum();
    for (const bool first : {false, true}) {
      expect_equal(
          by_fleet<optim::SGD>(
              world, use_dgc, momentum(), {.optimizer_first = first}),
          by_hand(
              world,
              plain<optim::SGD>(options),
              DataParallelOptions{
                  .hook = deep_gradient_compression(dgc_options())}));
    }
  });
}

TEST_P(Switches, DeepGradientCompressionClipsWhatARankAdds) {
  on_ranks([](World& world) {
    if (world.size() == 1) {
      return;
    }
    DgcOptions options = dgc_options();
    options.clip_norm = 0.05;
    expect_equal(
        by_fleet<optim::SGD>(
            world,
            [](auto& s) {
              use_dgc(s);
              s.grad_clip = true;
              s.grad_clip_configs.limit = 0.05;
            },
            momentum()),
        by_hand(
            world,
            plain<optim::SGD>(optim::SGDOptions(0.05)),
            DataParallelOptions{.hook = deep_gradient_compression(options)}));
  });
}

// Stage 1 keeps whole gradients, which the compression averages; each rank then
// steps its part of the parameters.
TEST_P(Switches, CompressionGoesWithStage1) {
  check_hook(
      [](auto& s) {
        s.power_sgd = true;
        s.power_sgd_configs.rank = 1;
        s.power_sgd_configs.start_step = 3;
        s.sharding = true;
      },
      [] { return power_sgd({.rank = 1, .start_step = 3}); });
  on_ranks([](World& world) {
    if (world.size() == 1) {
      return;
    }
    for (const bool first : {false, true}) {
      expect_equal(
          by_fleet<optim::SGD>(
              world,
              [](auto& s) {
                use_dgc(s);
                s.sharding = true;
              },
              momentum(),
              {.optimizer_first = first}),
          by_hand(
              world,
              plain<optim::SGD>(optim::SGDOptions(0.05)),
              DataParallelOptions{
                  .hook = deep_gradient_compression(dgc_options())}));
    }
  });
}

// Errors have the scale of the loss, which must not matter. Powers of two
// change no digits.
TEST_P(Switches, CompressionGoesWithAFixedScaleOfTheLoss) {
  on_ranks([](World& world) {
    for (const bool is_dgc : {false, true}) {
      const auto trained = [&](double scale) {
        return by_fleet<optim::SGD>(
            world,
            [&](auto& s) {
              if (is_dgc) {
                use_dgc(s);
              } else {
                s.power_sgd = true;
                s.power_sgd_configs.rank = 1;
                s.power_sgd_configs.start_step = 3;
              }
              s.grad_clip = true;
              s.grad_clip_configs.limit = 0.05;
              s.amp = true;
              s.amp_configs.use_dynamic_loss_scaling = false;
              s.amp_configs.init_loss_scaling = scale;
            },
            momentum());
      };
      const Params once = trained(1);
      const Params scaled = trained(1024);
      for (std::size_t i = 0; i < once.size(); ++i) {
        EXPECT_TRUE(torch::allclose(scaled[i], once[i], 1e-5, 1e-6)) << i;
      }
    }
  });
}

// The scale doubles every other step.
TEST_P(Switches, CompressionFollowsAScaleThatChanges) {
  on_ranks([](World& world) {
    for (const bool is_dgc : {false, true}) {
      for (const bool sharding : {false, true}) {
        const auto trained = [&](double scale, bool changes) {
          return by_fleet<optim::SGD>(
              world,
              [&](auto& s) {
                if (is_dgc) {
                  use_dgc(s);
                } else {
                  s.power_sgd = true;
                  s.power_sgd_configs.rank = 1;
                  s.power_sgd_configs.start_step = 3;
                }
                s.sharding = sharding;
                s.grad_clip = true;
                s.grad_clip_configs.limit = 0.05;
                s.amp = true;
                s.amp_configs.use_dynamic_loss_scaling = changes;
                s.amp_configs.incr_every_n_steps = 2;
                s.amp_configs.init_loss_scaling = scale;
              },
              momentum());
        };
        const Params once = trained(1, false);
        const Params scaled = trained(256, true);
        for (std::size_t i = 0; i < once.size(); ++i) {
          EXPECT_TRUE(torch::allclose(scaled[i], once[i], 1e-5, 1e-6)) << i;
        }
        // Gradients of the first steps are infinite.
        for (const at::Tensor& each : trained(std::ldexp(1.0, 126), true)) {
          EXPECT_TRUE(each.isfinite().all().template item<bool>());
        }
      }
    }
  });
}

// Passes without sync add up in what is sent.
TEST_P(Switches, CompressionWithStage1AddsUpMergedGradients) {
  on_ranks([](World& world) {
    const auto trained = [&](bool sharding) {
      return by_fleet<optim::Adam>(
          world,
          [&](auto& s) {
            s.power_sgd = true;
            s.power_sgd_configs.rank = 1;
            s.power_sgd_configs.start_step = 1;
            s.gradient_merge = true;
            s.gradient_merge_configs.k_steps = 3;
            s.sharding = sharding;
          },
          optim::AdamOptions(0.01));
    };
    expect_equal(trained(true), trained(false));
  });
}

TEST_P(Switches, SumsGradientsWhenAsked) {
  const int n = GetParam();
  const Train train = [n](Net& net, HandModel& model, int rank) {
    optim::SGD optimizer(net->parameters(), momentum());
    for (int step = 0; step < kSteps; ++step) {
      optimizer.zero_grad();
      loss_of(model, step, rank).backward();
      for (auto& parameter : net->parameters()) {
        parameter.mutable_grad().mul_(n);
      }
      optimizer.step();
    }
  };
  for (const char* kind : {"sum", "customized"}) {
    check(
        [&](auto& s) { s.gradient_scale_configs.scale_strategy = kind; },
        train);
  }
}

TEST_P(Switches, FindsUnusedParameters) {
  check(
      [](auto& s) { s.find_unused_parameters = true; },
      plain<optim::SGD>(momentum()),
      {.find_unused_parameters = true},
      {.with_spare = true});
}

TEST_P(Switches, BatchNormOverRanks) {
  check(
      [](auto& s) { s.sync_batch_norm = true; },
      plain<optim::SGD>(momentum()),
      {},
      {.with_norm = true});
}

// ---- When and how the optimizer steps ---------------------------------------

Train merged(bool avg) {
  return [avg](Net& net, HandModel& model, int rank) {
    optim::SGD inner(net->parameters(), momentum());
    optim::GradientMerge merge(inner, {.k_steps = 3, .avg = avg});
    for (int step = 0; step < kSteps; ++step) {
      merge.zero_grad();
      if (merge.will_step()) {
        loss_of(model, step, rank).backward();
      } else {
        const auto local = model.no_sync();
        loss_of(model, step, rank).backward();
      }
      merge.step();
    }
  };
}

TEST_P(Switches, GradientMerge) {
  for (const bool avg : {true, false}) {
    for (const bool first : {true, false}) {
      check(
          [&](auto& s) {
            s.gradient_merge = true;
            s.gradient_merge_configs.k_steps = 3;
            s.gradient_merge_configs.avg = avg;
          },
          merged(avg),
          {},
          {.optimizer_first = first});
    }
  }
}

TEST_P(Switches, GradientMergeSendsOnlyWhenItSteps) {
  on_ranks([](World& world) {
    const auto calls = [] { return get_group()->traffic().total().calls; };
    DistributedStrategy strategy;
    strategy.gradient_merge = true;
    strategy.gradient_merge_configs.k_steps = 4;
    init(true, strategy);
    Net net = net_of(world, {});
    auto model = distributed_model(net);
    optim::SGD inner(net->parameters(), momentum());
    auto optimizer = distributed_optimizer(inner);
    for (int step = 0; step < 4; ++step) {
      EXPECT_EQ(
          optimizer.minimize(loss_of(model, step, world.rank())), step == 3);
    }
    const auto before = calls();
    for (int step = 0; step < 8; ++step) {
      model.zero_grad(); // the model's keeps what is merged, too
      EXPECT_EQ(
          optimizer.minimize(loss_of(model, step, world.rank())),
          step % 4 == 3);
    }
    EXPECT_EQ(calls() - before, world.size() > 1 ? 2u : 0u);
  });
}

// Without any reduction of gradients.
template <typename Average>
Train local(const Average& make_average) {
  return [make_average](Net& net, HandModel& model, int rank) {
    optim::SGD optimizer(net->parameters(), momentum());
    auto average = make_average(net);
    const auto alone = model.no_sync();
    for (int step = 0; step < kSteps; ++step) {
      optimizer.zero_grad();
      const at::Tensor loss = loss_of(model, step, rank);
      loss.backward();
      optimizer.step();
      if constexpr (requires { average.step(); }) {
        average.step();
      } else {
        average.step(loss.template item<double>(), 0.05);
      }
    }
  };
}

TEST_P(Switches, LocalSgd) {
  for (const bool first : {true, false}) {
    check(
        [](auto& s) {
          s.localsgd = true;
          s.localsgd_configs.k_steps = 4;
          s.localsgd_configs.begin_step = 2;
        },
        local([](Net& net) {
          return optim::LocalSgd(
              net->parameters(), {.k_steps = 4, .begin_step = 2});
        }),
        {},
        {.optimizer_first = first});
  }
}

TEST_P(Switches, AdaptiveLocalSgd) {
  check(
      [](auto& s) {
        s.adaptive_localsgd = true;
        s.adaptive_localsgd_configs.init_k_steps = 3;
      },
      local([](Net& net) {
        return optim::AdaptiveLocalSgd(net->parameters(), {.init_k_steps = 3});
      }));
}

TEST_P(Switches, ClipsGradients) {
  for (const char* by : {"norm", "value"}) {
    const bool norm = by == std::string("norm");
    check(
        [&](auto& s) {
          s.grad_clip = true;
          s.grad_clip_configs.by = by;
          s.grad_clip_configs.limit = 0.01;
        },
        [norm](Net& net, HandModel& model, int rank) {
          optim::SGD optimizer(net->parameters(), momentum());
          for (int step = 0; step < kSteps; ++step) {
            optimizer.zero_grad();
            loss_of(model, step, rank).backward();
            if (norm) {
              optim::clip_grad_norm_(net->parameters(), 0.01);
            } else {
              optim::clip_grad_value_(net->parameters(), 0.01);
            }
            optimizer.step();
          }
        });
  }
}

TEST_P(Switches, MovingAverage) {
  on_ranks([](World& world) {
    DistributedStrategy strategy;
    strategy.ema = true;
    strategy.ema_configs.decay = 0.5;
    init(true, strategy);
    Net net = net_of(world, {});
    optim::SGD inner(net->parameters(), momentum());
    auto optimizer = distributed_optimizer(inner);
    auto model = distributed_model(net);
    EXPECT_EQ(optimizer.scaler(), nullptr);
    optim::Ema by_hand(net->parameters(), {.decay = 0.5});
    for (int step = 0; step < kSteps; ++step) {
      optimizer.zero_grad();
      optimizer.minimize(loss_of(model, step, world.rank()));
      by_hand.update();
    }
    expect_equal(optimizer.ema()->state(), by_hand.state());
  });
}

// The moving average of the mean of the ranks' models, whenever that is known.
TEST_P(Switches, MovingAverageOfLocalSgd) {
  for (const bool adaptive : {false, true}) {
    on_ranks([&](World& world) {
      DistributedStrategy strategy;
      if (adaptive) {
        strategy.adaptive_localsgd = true;
        strategy.adaptive_localsgd_configs.init_k_steps = 3;
      } else {
        strategy.localsgd = true;
        strategy.localsgd_configs.k_steps = 3;
      }
      strategy.ema = true;
      strategy.ema_configs.decay = 0.5;
      init(true, strategy);
      Net net = net_of(world, {});
      optim::SGD inner(net->parameters(), momentum());
      auto optimizer = distributed_optimizer(inner);
      auto model = distributed_model(net);
      std::vector<at::Tensor> means;
      for (const at::Tensor& parameter : net->parameters()) {
        means.push_back(parameter.detach().clone());
      }
      optim::Ema expected(means, {.decay = 0.5});
      int agreed = 0;
      for (int step = 0; step < kSteps; ++step) {
        optimizer.zero_grad();
        optimizer.minimize(loss_of(model, step, world.rank()));
        bool agrees = true;
        for (std::size_t i = 0; i < means.size(); ++i) {
          const at::Tensor own = net->parameters()[i].detach();
          means[i].copy_(own);
          all_reduce(means[i], ReduceOp::AVG);
          agrees = agrees && torch::allclose(means[i], own, 1e-6, 1e-7);
        }
        expected.update();
        if (!agrees) {
          continue;
        }
        ++agreed;
        for (std::size_t i = 0; i < means.size(); ++i) {
          EXPECT_TRUE(torch::allclose(
              optimizer.ema()->state()[i], expected.state()[i], 1e-5, 1e-6))
              << "step " << step;
        }
      }
      EXPECT_GT(agreed, 1);
    });
  }
}

// ---- Other optimizers -------------------------------------------------------

TEST_P(Switches, LarsTakesThePlaceOfMomentum) {
  check(
      [](auto& s) {
        s.lars = true;
        s.lars_configs.lars_coeff = 0.01;
        s.lars_configs.lars_weight_decay = 0.002;
        s.lars_configs.epsilon = 1e-6;
        s.lars_configs.exclude_from_weight_decay = {"bias", "second"};
      },
      [](Net& net, HandModel& model, int rank) {
        const auto options = optim::LarsOptions(0.05)
                                 .momentum(0.9)
                                 .lars_coeff(0.01)
                                 .weight_decay(0.002)
                                 .epsilon(1e-6);
        auto without = options;
        without.weight_decay(0);
        optim::Lars optimizer(optim::split_groups(
            net->named_parameters(),
            optim::name_contains({"bias", "second"}),
            options,
            without));
        for (int step = 0; step < kSteps; ++step) {
          optimizer.zero_grad();
          loss_of(model, step, rank).backward();
          optimizer.step();
        }
      });
}

template <typename Adam, typename Options>
void check_lamb(World& world, const Options& options) {
  expect_equal(
      by_fleet<Adam>(
          world, [](auto& s) { s.lamb = true; }, options),
      by_hand(
          world,
          plain<optim::Lamb>(optim::LambOptions(0.01)
                                 .betas(std::make_tuple(0.8, 0.95))
                                 .eps(1e-7)
                                 .weight_decay(0.01))));
}

TEST_P(Switches, LambTakesThePlaceOfAdam) {
  on_ranks([](World& world) {
    const auto betas = std::make_tuple(0.8, 0.95);
    check_lamb<optim::Adam>(
        world, optim::AdamOptions(0.01).betas(betas).eps(1e-7));
    check_lamb<optim::AdamW>(
        world, optim::AdamWOptions(0.01).betas(betas).eps(1e-7));
    check_lamb<torch::optim::Adam>(
        world, optim::AdamOptions(0.01).betas(betas).eps(1e-7));
  });
}

// ---- Mixed precision --------------------------------------------------------

optim::GradScaler scaler_by_hand() {
  return optim::GradScaler(
      {.init_loss_scaling = 1024, .incr_every_n_steps = 3}, get_group());
}

at::Tensor loss_in_bfloat16(HandModel& model, int step, int rank) {
  const auto forward = [&](const at::Tensor& x) {
    const optim::AutoCast cast;
    return model(x).to(torch::kFloat);
  };
  return loss_of(forward, step, rank);
}

// The loop by hand; `clip` 0 is none.
Train mixed(double clip, bool pure = false) {
  return [=](Net& net, HandModel& model, int rank) {
    optim::SGD optimizer(net->parameters(), momentum());
    optim::GradScaler scaler = scaler_by_hand();
    for (int step = 0; step < kSteps; ++step) {
      optimizer.zero_grad();
      scaler.scale(loss_in_bfloat16(model, step, rank)).backward();
      if (clip > 0) {
        scaler.unscale_(optimizer);
        optim::clip_grad_norm_(net->parameters(), clip);
      }
      scaler.step(optimizer);
      scaler.update();
    }
    EXPECT_EQ(net->first->weight.dtype() == torch::kBFloat16, pure);
  };
}

void use_amp(DistributedStrategy& strategy) {
  strategy.amp = true;
  strategy.amp_configs.init_loss_scaling = 1024;
  strategy.amp_configs.incr_every_n_steps = 3;
}

TEST_P(Switches, MixedPrecision) {
  check(use_amp, mixed(0));
}

TEST_P(Switches, MixedPrecisionWithClipping) {
  check(
      [](auto& s) {
        use_amp(s);
        s.grad_clip = true;
        s.grad_clip_configs.limit = 0.01;
      },
      mixed(0.01));
}

TEST_P(Switches, WeightsInBfloat16) {
  on_ranks([](World& world) {
    const auto ours = by_fleet<optim::SGD>(
        world,
        [](auto& s) {
          use_amp(s);
          s.amp_configs.use_pure_bf16 = true;
        },
        momentum());
    Net net = net_of(world, {});
    net->to(torch::kBFloat16);
    HandModel model(net);
    mixed(0, true)(net, model, world.rank());
    EXPECT_EQ(ours[0].dtype(), torch::kBFloat16);
    expect_equal(ours, net->parameters());
  });
}

TEST_P(Switches, BatchNormKeepsItsDigitsInBfloat16) {
  for (const bool sync : {false, true}) {
    on_ranks([&](World& world) {
      DistributedStrategy strategy;
      use_amp(strategy);
      strategy.amp_configs.use_pure_bf16 = true;
      strategy.sync_batch_norm = sync;
      init(true, strategy);
      Net net = net_of(world, {.with_norm = true});
      auto model = distributed_model(net);
      optim::SGD inner(net->parameters(), momentum());
      auto optimizer = distributed_optimizer(inner);
      double first = 0;
      double last = 0;
      for (int step = 0; step < 3 * kSteps; ++step) {
        optimizer.zero_grad();
        const at::Tensor loss = loss_of(model, 0, world.rank());
        optimizer.minimize(loss);
        last = loss.item<double>();
        first = step == 0 ? last : first;
      }
      EXPECT_EQ(net->norm->running_mean.dtype(), torch::kFloat);
      EXPECT_EQ(net->first->weight.dtype(), torch::kBFloat16);
      EXPECT_LT(last, 0.5 * first);
    });
  }
}

// One rank's loss is not finite: nobody steps, and all scales shrink.
TEST_P(Switches, AllRanksLeaveOutAStepThatIsNotFiniteOnOne) {
  on_ranks([](World& world) {
    DistributedStrategy strategy;
    use_amp(strategy);
    strategy.localsgd = true; // so that gradients do not tell the others
    strategy.amp_configs.decr_every_n_nan_or_inf = 1;
    init(true, strategy);
    Net net = net_of(world, {});
    auto model = distributed_model(net);
    optim::SGD inner(net->parameters(), momentum());
    auto optimizer = distributed_optimizer(inner);
    const at::Tensor before = net->first->weight.detach().clone();
    const bool last = world.rank() == world.size() - 1;
    EXPECT_FALSE(optimizer.minimize(
        loss_of(model, 0, world.rank()) *
        (last ? std::numeric_limits<float>::infinity() : 1)));
    EXPECT_TRUE(torch::equal(net->first->weight, before));
    EXPECT_DOUBLE_EQ(optimizer.scaler()->loss_scaling(), 0.8 * 1024);
    optimizer.zero_grad();
    EXPECT_TRUE(optimizer.minimize(loss_of(model, 1, world.rank())));
    EXPECT_FALSE(torch::equal(net->first->weight, before));
  });
}

// ---- Several at once --------------------------------------------------------

TEST_P(Switches, ManyAtOnce) {
  on_ranks([](World& world) {
    const Params ours = by_fleet<optim::Adam>(
        world,
        [](auto& s) {
          use_amp(s);
          s.gradient_merge = true;
          s.gradient_merge_configs.k_steps = 2;
          s.grad_clip = true;
          s.grad_clip_configs.limit = 0.1;
          s.lamb = true;
          s.fp16_allreduce = true;
        },
        optim::AdamOptions(0.01));
    const Train train = [](Net& net, HandModel& model, int rank) {
      optim::Lamb inner(net->parameters(), optim::LambOptions(0.01).eps(1e-8));
      optim::GradientMerge merge(inner, {.k_steps = 2});
      optim::GradScaler scaler = scaler_by_hand();
      for (int step = 0; step < kSteps; ++step) {
        merge.zero_grad();
        std::optional<training::NoSync> alone;
        if (!merge.will_step()) {
          alone.emplace(model.core());
        }
        scaler.scale(loss_in_bfloat16(model, step, rank)).backward();
        merge.step([&] {
          scaler.unscale_(inner);
          optim::clip_grad_norm_(net->parameters(), 0.1);
          scaler.step(inner);
          scaler.update();
        });
      }
    };
    expect_equal(
        ours,
        by_hand(world, train, DataParallelOptions{.hook = fp16_compression()}));
  });
}

TEST_P(Switches, LocalSgdCountsTheStepsOfMergedGradients) {
  check(
      [](auto& s) {
        s.gradient_merge = true;
        s.gradient_merge_configs.k_steps = 2;
        s.localsgd = true;
        s.localsgd_configs.k_steps = 3;
      },
      [](Net& net, HandModel& model, int rank) {
        optim::SGD inner(net->parameters(), momentum());
        optim::GradientMerge merge(inner, {.k_steps = 2});
        optim::LocalSgd average(net->parameters(), {.k_steps = 3});
        const auto alone = model.no_sync();
        for (int step = 0; step < kSteps; ++step) {
          merge.zero_grad();
          loss_of(model, step, rank).backward();
          if (merge.step()) {
            average.step();
          }
        }
      });
}

} // namespace
} // namespace argosy::fleet
