// Unchanged models whose parameters are on servers, compared with one process.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>

#include "argosy/fleet/ps_model.h"
#include "argosy/optim/adam.h"
#include "argosy/training/parameter_marks.h"
#include "tests/fleet/ps_net.h"
#include "tests/fleet/ps_threads.h"
#include "tests/support/refusal.h"

namespace argosy::fleet {
namespace {

using argosy::testing::refusal;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

DistributedStrategy strategy_of(const char* json = "{}") {
  auto strategy = DistributedStrategy::from_json(json);
  strategy.ps_configs.initial_range = 0.5;
  return strategy;
}

// What every worker has before and after training through fleet.
struct Trained {
  Values start;
  std::vector<Values> end;
};

template <typename MakeOptimizer>
Trained train(
    PsThreads job,
    const MakeOptimizer& make_optimizer,
    const std::function<void(Net&)>& before = nullptr) {
  Trained result;
  result.end.resize(static_cast<std::size_t>(job.num_workers));
  job.run([&](int worker) {
    Net net;
    if (before) {
      before(net);
    }
    auto model = fleet::distributed_model(net);
    auto inner = make_optimizer(net->parameters());
    auto optimizer = fleet::distributed_optimizer(inner);
    if (worker == 0) {
      result.start = values_of(net);
    }
    fleet::barrier_worker();
    for (int step = 0; step < kSteps; ++step) {
      optimizer.set_lr(rate_of(step));
      optimizer.zero_grad();
      loss_of(model, worker, step).backward();
      optimizer.step();
    }
    result.end[static_cast<std::size_t>(worker)] = values_of(net);
    fleet::barrier_worker();
  });
  return result;
}

void expect_same_bits(const Values& a, const Values& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(torch::equal(a[i], b[i]))
        << i << " differs by " << (a[i] - b[i]).abs().max().item<double>();
  }
}

void expect_near(const Values& a, const Values& b, double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_LT((a[i] - b[i]).abs().max().item<double>(), tolerance) << i;
  }
}

const auto kSgd = [](std::vector<torch::Tensor> parameters) {
  return torch::optim::SGD(std::move(parameters), 0.5);
};

TEST(PsModel, InSyncModeHasTheBitsOfOneProcess) {
  for (const int workers : {1, 3}) {
    const Trained run =
        train({.num_workers = workers, .strategy = strategy_of()}, kSgd);
    const Values alone = train_alone(run.start, workers, sgd_of_servers);
    for (const Values& end : run.end) {
      expect_same_bits(end, alone);
    }
  }
}

// Rows begin with the module's values of the first worker.
TEST(PsModel, RowsStartFromTheModulesValues) {
  for (const int workers : {1, 2}) {
    Values own; // of the first worker's module
    std::mutex mutex;
    int next = 0;
    const Trained run = train(
        {.num_workers = workers,
         .strategy =
             strategy_of(R"({"ps_configs": {"init_in_server": false}})")},
        kSgd,
        [&](Net& net) {
          const std::lock_guard lock(mutex);
          torch::manual_seed(++next);
          for (const auto& each : net->parameters()) {
            const torch::NoGradGuard no_grad;
            each.uniform_(-0.5, 0.5);
          }
          if (fleet::worker_index() == 0) {
            own = values_of(net);
          }
        });
    expect_same_bits(run.start, own);
    const Values alone = train_alone(own, workers, sgd_of_servers);
    for (const Values& end : run.end) {
      expect_same_bits(end, alone);
    }
  }
}

TEST(PsModel, HasTheOptimizersOfServers) {
  // Servers add it at another place, which matters for gradients near zero.
  static constexpr double kEpsilon = 1e-12;
  const auto adam = [](std::vector<torch::Tensor> parameters) {
    return optim::Adam(parameters, optim::AdamOptions(0.5).eps(kEpsilon));
  };
  const Trained run = train({.strategy = strategy_of()}, adam, [](Net& net) {
    const torch::NoGradGuard no_grad; // with such rates some starts diverge
    net->out->weight.copy_(torch::linspace(-0.3, 0.3, 2 * kDim).view({1, -1}));
    net->out->bias.zero_();
  });
  std::unique_ptr<torch::optim::Adam> alone;
  const Values expected = train_alone(run.start, 2, [&](Net& net, int step) {
    if (!alone) {
      alone = std::make_unique<torch::optim::Adam>(
          net->parameters(), torch::optim::AdamOptions(0.5).eps(kEpsilon));
    }
    alone->param_groups()[0].options().set_lr(rate_of(step));
    const torch::AutoGradMode grad(true);
    alone->step();
  });
  expect_near(run.end[0], expected, 1e-3);
  expect_same_bits(run.end[0], run.end[1]);
}

// MindSpore's hybrid: chosen parameters on servers, the others by all_reduce.
TEST(PsModel, WorkersAverageGradientsOfWhatServersDoNotHold) {
  const auto update = [](Net& net, int step) {
    const auto items = net->items->weight;
    items.copy_(items - items.grad() * rate_of(step));
    for (const auto& each :
         {net->tags->weight, net->out->weight, net->out->bias}) {
      each.sub_(each.grad(), rate_of(step)); // as torch::optim::SGD
    }
  };
  const Trained by_rule = train(
      {.strategy =
           strategy_of(R"({"ps_configs": {"parameters": ["items\\..*"]}})")},
      kSgd);
  const Trained by_mark =
      train({.strategy = strategy_of()}, kSgd, [](Net& net) {
        fleet::set_param_ps(*net->items);
      });
  for (const Trained& run : {by_rule, by_mark}) {
    const Values alone = train_alone(run.start, 2, update);
    expect_same_bits(run.end[0], alone);
    expect_same_bits(run.end[1], alone);
  }
}

// Dense parameters on servers, an embedding on workers.
TEST(PsModel, ServersHoldDenseParametersAlone) {
  const Trained run = train(
      {.strategy = strategy_of(R"({"ps_configs": {"parameters": ["out.*"]}})")},
      kSgd);
  const Values alone = train_alone(run.start, 2, [](Net& net, int step) {
    for (const auto& each : {net->out->weight, net->out->bias}) {
      each.copy_(each - each.grad() * rate_of(step));
    }
    for (const auto& each : {net->items->weight, net->tags->weight}) {
      each.sub_(each.grad(), rate_of(step));
    }
  });
  expect_same_bits(run.end[0], alone);
  expect_same_bits(run.end[1], alone);
}

// Groups of the optimizer with dense parameters are tables of their own.
TEST(PsModel, ServersHoldDenseParametersOfSeveralGroups) {
  const auto two_groups = [](const std::vector<torch::Tensor>& parameters) {
    return torch::optim::SGD(
        std::vector<torch::optim::OptimizerParamGroup>{
            {{parameters[0], parameters[2]},
             std::make_unique<torch::optim::SGDOptions>(0.5)},
            {{parameters[1], parameters[3]},
             std::make_unique<torch::optim::SGDOptions>(0.125)}},
        torch::optim::SGDOptions(0.5));
  };
  Trained run;
  run.end.resize(2);
  PsThreads{.strategy = strategy_of()}.run([&](int worker) {
    Net net;
    auto model = fleet::distributed_model(net);
    auto inner = two_groups(net->parameters());
    auto optimizer = fleet::distributed_optimizer(inner);
    if (worker == 0) {
      run.start = values_of(net);
    }
    fleet::barrier_worker();
    for (int step = 0; step < kSteps; ++step) {
      loss_of(model, worker, step).backward();
      optimizer.step();
    }
    run.end[static_cast<std::size_t>(worker)] = values_of(net);
    fleet::barrier_worker();
  });
  const Values alone = train_alone(run.start, 2, [](Net& net, int) {
    for (std::size_t i = 0; i < 4; ++i) {
      torch::Tensor parameter = net->parameters()[i];
      parameter.copy_(
          parameter - parameter.grad() * (i % 2 == 0 ? 0.5 : 0.125));
    }
  });
  expect_same_bits(run.end[0], alone);
  expect_same_bits(run.end[1], alone);
}

TEST(PsModel, TheStrategyChoosesTheMode) {
  struct Case {
    const char* json;
    ps::Mode mode;
    int bound;
  };
  for (const Case& each : std::vector<Case>{
           {"{}", ps::Mode::Sync, 0},
           {R"({"a_sync": true, "a_sync_configs":
               {"send_queue_size": 3, "max_merge_var_num": 2}})",
            ps::Mode::Async,
            3},
           {R"({"a_sync": true, "a_sync_configs":
               {"independent_recv_thread": true,
                "min_send_grad_num_before_recv": 2}})",
            ps::Mode::Async,
            16},
           {R"({"a_sync": true, "a_sync_configs": {"half_async": true}})",
            ps::Mode::HalfAsync,
            1},
           {R"({"a_sync": true, "a_sync_configs": {"k_steps": 4}})",
            ps::Mode::Geo,
            4},
           {R"({"a_sync": true, "ps_configs":
               {"cache_rows": 100, "cache_steps": 2}})",
            ps::Mode::Async,
            16}}) {
    SCOPED_TRACE(each.json);
    std::vector<double> first(2);
    std::vector<double> last(2);
    PsThreads{.strategy = strategy_of(each.json)}.run([&](int worker) {
      torch::manual_seed(1);
      Net net;
      auto model = fleet::distributed_model(net);
      torch::optim::SGD sgd(net->parameters(), 0.05);
      auto optimizer = fleet::distributed_optimizer(sgd);
      const auto session = fleet::ps_session();
      EXPECT_EQ(session->communicator().options().mode, each.mode);
      for (int step = 0; step < 60; ++step) {
        // Both learn one thing, so that order does not matter.
        const auto loss =
            (model(ids_of(worker, step), bags_of(worker, step)) - 1)
                .pow(2)
                .mean();
        loss.backward();
        optimizer.step();
        (step == 0 ? first : last)[worker] = loss.item<double>();
      }
      EXPECT_EQ(session->communicator().max_staleness_bound(), each.bound);
      EXPECT_LE(session->max_staleness(), each.bound);
      EXPECT_GE(session->max_staleness(), each.bound == 0 ? 0 : 1);
      if (each.mode == ps::Mode::Geo) {
        EXPECT_EQ(session->max_staleness(), 4);
      }
      fleet::barrier_worker();
    });
    EXPECT_LT(last[0], first[0] / 4);
    EXPECT_LT(last[1], first[1] / 4);
  }
}

TEST(PsModel, WorkersNeitherStepNorReduceWhatServersHold) {
  PsThreads{.strategy = strategy_of(R"({"a_sync": true,
          "a_sync_configs": {"min_send_grad_num_before_recv": 100},
          "ps_configs": {"parameters": ["items.*", "out.weight"]}})")}
      .run([](int worker) {
        Net net;
        auto model = fleet::distributed_model(net);
        torch::optim::SGD sgd(net->parameters(), 0.5);
        auto optimizer = fleet::distributed_optimizer(sgd);
        EXPECT_TRUE(marks_of(net->out->weight).on_servers);
        EXPECT_FALSE(marks_of(net->out->bias).on_servers);
        const Values before = values_of(net);
        loss_of(model, worker, 0).backward();
        optimizer.step();
        const Values after = values_of(net);
        EXPECT_TRUE(torch::equal(after[2], before[2])); // not pulled yet
        EXPECT_FALSE(torch::equal(after[3], before[3]));
        fleet::ps_session()->flush();
        fleet::barrier_worker();
        fleet::ps_session()->pull_dense();
        EXPECT_FALSE(torch::equal(values_of(net)[2], before[2]));
        fleet::barrier_worker();
      });
}

TEST(PsModel, SaysWhoHoldsWhat) {
  Net net;
  const auto placed = [&](const char* json) {
    return ps_placement(*net, DistributedStrategy::from_json(json));
  };
  EXPECT_THAT(placed("{}").tables, ElementsAre("items.weight", "tags.weight"));
  EXPECT_THAT(placed("{}").dense, ElementsAre("out.weight", "out.bias"));
  EXPECT_THAT(placed("{}").workers, IsEmpty());
  const auto some =
      placed(R"({"ps_configs": {"parameters": ["tags.*", "out.bias"]}})");
  EXPECT_THAT(some.tables, ElementsAre("tags.weight"));
  EXPECT_THAT(some.dense, ElementsAre("out.bias"));
  EXPECT_THAT(some.workers, ElementsAre("items.weight", "out.weight"));
  net->out->bias.set_requires_grad(false);
  EXPECT_THAT(placed("{}").workers, ElementsAre("out.bias"));
}

TEST(PsModel, RefusesByName) {
  Net net;
  const auto refused = [&](const char* json) {
    return refusal(
        [&] { ps_placement(*net, DistributedStrategy::from_json(json)); });
  };
  EXPECT_THAT(
      refused(R"({"ps_configs": {"parameters": ["item"]}})"),
      HasSubstr("no parameter of the model is named \"item\""));
  EXPECT_THAT(
      refused(R"({"amp": true, "gradient_merge": true})"),
      HasSubstr("amp, gradient_merge: not with parameters on servers"));
  EXPECT_THAT(
      refused(R"({"hybrid_configs": {"mp_degree": 2}})"),
      HasSubstr("hybrid_configs.mp_degree"));
  EXPECT_THAT(
      refused(R"({"find_unused_parameters": true})"),
      HasSubstr("find_unused_parameters"));
  PsThreads{.num_servers = 1, .num_workers = 1}.run([](int) {
    Net first;
    auto model = fleet::distributed_model(first);
    torch::optim::SGD part(first->out->parameters(), 0.1);
    EXPECT_THAT(
        refusal([&] { fleet::distributed_optimizer(part); }),
        HasSubstr("servers hold items.weight, which the optimizer does not"));
  });
  PsThreads{.num_servers = 1, .num_workers = 1}.run([](int) {
    Net first;
    auto model = fleet::distributed_model(first);
    torch::optim::SGD momentum(
        first->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    EXPECT_THAT(
        refusal([&] { fleet::distributed_optimizer(momentum); }),
        HasSubstr("momentum of rows of embeddings"));
  });
  PsThreads{.num_servers = 1, .num_workers = 1}.run([](int) {
    Net first;
    auto model = fleet::distributed_model(first);
    torch::optim::SGD sgd(first->parameters(), 0.1);
    auto optimizer = fleet::distributed_optimizer(sgd);
    torch::optim::SGD other(first->out->parameters(), 0.1);
    EXPECT_THAT(
        refusal([&] { fleet::distributed_optimizer(other); }),
        HasSubstr("make one optimizer"));
    Net second;
    auto twin = fleet::distributed_model(second);
    EXPECT_THAT(
        refusal([&] { twin(ids_of(0, 0), bags_of(0, 0)); }),
        HasSubstr("there is a table 'items.weight' already"));
  });
}

// A model that is not trained: its tables are made by the first forward().
TEST(PsModel, RunsWithoutAnOptimizerAndWithFrozenParameters) {
  PsThreads{.strategy = strategy_of()}.run([](int worker) {
    torch::manual_seed(worker);
    Net net;
    net->out->bias.set_requires_grad(false);
    auto model = fleet::distributed_model(net);
    const torch::NoGradGuard no_grad;
    const auto score = model(ids_of(0, 0), bags_of(0, 0));
    const auto all = fleet::util().all_gather(score.sum().item<double>());
    EXPECT_EQ(all[0], all[1]);
    EXPECT_GT(score.abs().max().item<double>(), 0);
  });
}

} // namespace
} // namespace argosy::fleet
