// Sharded training against one process with the whole batch: losses,
// parameters, states, and what is communicated.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "argosy/checkpoint/checkpointer.h"
#include "argosy/comm/traffic.h"
#include "argosy/common/file.h"
#include "argosy/compat/group_sharded_model.h"
#include "argosy/data_parallel/compression.h"
#include "argosy/data_parallel/data_parallel.h"
#include "argosy/dtensor/deferred_init.h"
#include "argosy/mesh/rank_mesh.h"
#include "argosy/optim/adam.h"
#include "argosy/optim/gradients.h"
#include "argosy/optim/lamb.h"
#include "argosy/optim/lars.h"
#include "argosy/optim/sgd.h"
#include "argosy/recomputation/recompute.h"
#include "argosy/sharding/group_sharded.h"
#include "argosy/testing/ranks.h"
#include "argosy/torch_hooks/thread_generator.h"
#include "argosy/training/parameter_marks.h"
#include "argosy/world/world.h"
#include "tests/support/oracle_models.h"
#include "tests/support/refusal.h"

namespace argosy {
namespace {

using sharding::Level;
using sharding::ShardedCore;
using sharding::ShardedModel;
using sharding::ShardedOptimizer;
using sharding::ShardingOptions;
using testing::OracleModel;
using torch::nn::AnyModule;

constexpr int kSteps = 6;
constexpr long kRows = 12; // of all ranks together
const std::vector<std::string> kLevels = {"os", "os_g", "p_g_os"};

OracleModel gpt() {
  return testing::oracle_models().back();
}

testing::Batch part(const OracleModel& of, int step, const World& world) {
  return testing::part_of(of.batch(kRows, step), world.rank(), world.size());
}

// Units of a few hundred bytes, so that small models have several.
ShardingOptions small_units() {
  ShardingOptions options;
  options.buffer_max_size = 2000;
  options.segment_size = 200;
  return options;
}

struct Alone {
  std::vector<double> losses;
  AnyModule net;
};

template <typename Change>
Alone train_alone(const OracleModel& of, const Change& before_step) {
  Alone alone{.net = of.make_with_weights()};
  torch::optim::AdamW optimizer(
      alone.net.ptr()->parameters(), torch::optim::AdamWOptions(1e-2));
  for (int step = 0; step < kSteps; ++step) {
    const auto batch = of.batch(kRows, step);
    optimizer.zero_grad();
    const at::Tensor loss =
        testing::loss_of(alone.net.forward(batch.x), batch.target);
    loss.backward();
    before_step(alone.net);
    optimizer.step();
    alone.losses.push_back(loss.item<double>());
  }
  return alone;
}

Alone train_alone(const OracleModel& of) {
  return train_alone(of, [](AnyModule&) {});
}

void expect_close(const at::Tensor& a, const at::Tensor& b) {
  ASSERT_EQ(a.sizes(), b.sizes());
  EXPECT_LT((a - b).abs().max().item<double>(), 1e-9);
}

void expect_same_parameters(
    const torch::nn::Module& net, const torch::nn::Module& alone) {
  const auto params = net.named_parameters();
  for (const auto& item : alone.named_parameters()) {
    SCOPED_TRACE(item.key());
    expect_close(params[item.key()].detach().clone(), item.value());
  }
}

void expect_mean(const std::vector<double>& losses, const Alone& alone) {
  at::Tensor mean = torch::tensor(losses, torch::kDouble);
  all_reduce(mean, ReduceOp::AVG);
  expect_close(mean, torch::tensor(alone.losses, torch::kDouble));
}

template <typename Model, typename Optimizer>
double train_step(
    Model& model, Optimizer& optimizer, const testing::Batch& batch) {
  optimizer.zero_grad();
  const at::Tensor loss =
      testing::loss_of(model.forward(batch.x), batch.target);
  loss.backward();
  optimizer.step();
  return loss.template item<double>();
}

// On one rank: trains on its part, and ends where one process did.
void expect_trains_as(
    const Alone& alone,
    const OracleModel& of,
    const std::string& level,
    const ShardingOptions& options,
    const World& world) {
  AnyModule net = of.make_with_weights();
  optim::AdamW adam(net.ptr()->parameters(), optim::AdamWOptions(1e-2));
  auto [model, optimizer, scaler] =
      sharding::group_sharded_parallel(net, adam, level, std::nullopt, options);
  std::vector<double> losses;
  for (int step = 0; step < kSteps; ++step) {
    losses.push_back(train_step(model, optimizer, part(of, step, world)));
  }
  expect_mean(losses, alone);
  const auto whole = model.whole();
  expect_same_parameters(*net.ptr(), *alone.net.ptr());
}

class Levels : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(
    Sharding, Levels, ::testing::ValuesIn(kLevels), [](const auto& of) {
      return of.param;
    });

TEST_P(Levels, EqualOneProcessWithTheWholeBatch) {
  for (const OracleModel& of : testing::oracle_models()) {
    if (of.name == "cnn") {
      continue; // statistics of batches differ by rank
    }
    const Alone alone = train_alone(of);
    for (const int num_ranks : {1, 2, 3, 4}) {
      for (const auto& options : {ShardingOptions{}, small_units()}) {
        SCOPED_TRACE(of.name + ", ranks: " + std::to_string(num_ranks));
        testing::run_ranks(num_ranks, [&](World& world) {
          expect_trains_as(alone, of, GetParam(), options, world);
        });
      }
    }
  }
}

TEST_P(Levels, FusionIdsAreUnits) {
  const OracleModel of = gpt();
  const Alone alone = train_alone(of);
  testing::run_ranks(2, [&](World& world) {
    AnyModule net = of.make_with_weights();
    std::size_t index = 0;
    for (const at::Tensor& each : net.ptr()->parameters()) {
      set_comm_fusion(each, index++ < 2 ? 0 : 1);
    }
    optim::AdamW adam(net.ptr()->parameters(), optim::AdamWOptions(1e-2));
    auto [model, optimizer, scaler] =
        sharding::group_sharded_parallel(net, adam, GetParam());
    EXPECT_EQ(model.core()->plan().size(), 3u) << model.core()->plan();
    for (int step = 0; step < kSteps; ++step) {
      train_step(model, optimizer, part(of, step, world));
    }
    const auto whole = model.whole();
    expect_same_parameters(*net.ptr(), *alone.net.ptr());
  });
}

TEST_P(Levels, TakeAnyOptimizerOfTorch) {
  const OracleModel of = gpt();
  const Alone alone = train_alone(of);
  testing::run_ranks(3, [&](World& world) {
    AnyModule net = of.make_with_weights();
    torch::optim::AdamW adam(
        net.ptr()->parameters(), torch::optim::AdamWOptions(1e-2));
    ShardedModel<AnyModule> model(
        net, sharding::level_of(GetParam()), small_units());
    ShardedOptimizer optimizer(adam, model.core());
    for (int step = 0; step < kSteps; ++step) {
      optimizer.zero_grad();
      const auto batch = part(of, step, world);
      testing::loss_of(model(batch.x), batch.target).backward();
      adam.step(); // the next forward notices
    }
    const auto whole = model.whole();
    expect_same_parameters(*net.ptr(), *alone.net.ptr());
  });
}

// Trains with an optimizer that needs norms of whole parameters, of two groups.
template <typename Optimizer>
struct NormCase {
  using Options = typename Optimizer::Options;

  static std::unique_ptr<Optimizer> make(
      const torch::nn::Module& net, double lr) {
    // The second group has parameters in few units: not every rank has a part.
    std::vector<at::Tensor> many;
    std::vector<at::Tensor> few;
    for (const auto& item : net.named_parameters()) {
      (item.key().find("bias") == std::string::npos ? many : few)
          .push_back(item.value());
    }
    std::vector<torch::optim::OptimizerParamGroup> groups;
    groups.emplace_back(many);
    groups.emplace_back(
        few, std::make_unique<Options>(Options(lr).weight_decay(0.1)));
    return std::make_unique<Optimizer>(std::move(groups), Options(lr));
  }

  static AnyModule alone(const OracleModel& of, double lr) {
    AnyModule net = of.make_with_weights();
    const auto optimizer = make(*net.ptr(), lr);
    for (int step = 0; step < kSteps; ++step) {
      optimizer->zero_grad();
      const auto batch = of.batch(kRows, step);
      testing::loss_of(net.forward(batch.x), batch.target).backward();
      optimizer->step();
    }
    return net;
  }

  static void check(
      const std::string& level,
      double lr,
      int num_ranks,
      const std::function<void(ShardingOptions&)>& change) {
    const OracleModel of = gpt();
    const AnyModule expected = alone(of, lr);
    testing::run_ranks(num_ranks, [&](World& world) {
      AnyModule net = of.make_with_weights();
      const auto inner = make(*net.ptr(), lr);
      ShardingOptions options = small_units();
      change(options);
      auto [model, optimizer, scaler] = sharding::group_sharded_parallel(
          net, *inner, level, std::nullopt, options);
      for (int step = 0; step < kSteps; ++step) {
        train_step(model, optimizer, part(of, step, world));
      }
      const auto whole = model.whole();
      expect_same_parameters(*net.ptr(), *expected.ptr());
    });
  }
};

TEST_P(Levels, StepByNormsOfWholeParameters) {
  const auto as_is = [](ShardingOptions&) {};
  for (const int num_ranks : {1, 2, 3}) {
    NormCase<optim::Lamb>::check(GetParam(), 1e-2, num_ranks, as_is);
    NormCase<optim::Lars>::check(GetParam(), 1.0, num_ranks, as_is);
  }
  const auto in_groups = [](ShardingOptions& options) {
    const auto mesh =
        rank_mesh(ProcessMesh::of_shape({2, 2}, {"dp", "sharding"}));
    options.group = mesh->group("sharding");
    options.dp_group = mesh->group("dp");
  };
  NormCase<optim::Lamb>::check(GetParam(), 1e-2, 4, in_groups);
}

// States in a file come in buffers, which are others on each rank.
TEST_P(Levels, StepByNormsWithStatesInAFile) {
  const TempDir dir("offload");
  const auto offloaded = [&](ShardingOptions& options) {
    options.offload =
        offload::OffloadOptions{.offload_path = dir.path().string()};
  };
  NormCase<optim::Lamb>::check(GetParam(), 1e-2, 3, offloaded);
  NormCase<optim::Lars>::check(GetParam(), 1.0, 3, offloaded);
}

// As DataParallel sends them.
TEST_P(Levels, SendGradientsIn16Bits) {
  const OracleModel of = gpt();
  for (const bool accumulates : {false, true}) {
    testing::run_ranks(2, [&](World& world) {
      const auto train = [&](auto& model, auto& optimizer) {
        for (int step = 0; step < kSteps; ++step) {
          const auto batch = part(of, step, world);
          testing::loss_of(model(batch.x), batch.target).backward();
          if (!accumulates || step % 2 == 1) {
            optimizer.step();
            optimizer.zero_grad();
          }
        }
      };
      AnyModule copied = of.make_with_weights();
      torch::optim::SGD sgd(copied.ptr()->parameters(), 0.1);
      DataParallel<AnyModule> copies(copied, {.hook = bf16_compression()});
      AnyModule net = of.make_with_weights();
      optim::SGD inner(net.ptr()->parameters(), optim::SGDOptions(0.1));
      ShardingOptions options = small_units();
      options.sent_type = torch::kBFloat16;
      auto [model, optimizer, scaler] = sharding::group_sharded_parallel(
          net, inner, GetParam(), std::nullopt, options);
      const std::size_t before =
          get_group()->traffic().of(comm::OpKind::ReduceScatter).bytes;
      train(model, optimizer);
      const std::size_t sent =
          get_group()->traffic().of(comm::OpKind::ReduceScatter).bytes - before;
      std::size_t bytes = 0; // of all gradients
      for (const auto& unit : model.core()->plan()) {
        bytes += unit.buckets[0].bytes();
      }
      EXPECT_EQ(sent, kSteps * bytes / 4); // 2 bytes of 8
      if (!accumulates) {                  // where DataParallel rounds sums
        train(copies, sgd);
        const auto whole = model.whole();
        expect_same_parameters(*net.ptr(), *copied.ptr());
      }
    });
  }
}

// A stage of a pipeline may have none.
TEST_P(Levels, TakeModulesWithoutTrainedParameters) {
  testing::run_ranks(2, [&](World&) {
    const Level level = sharding::level_of(GetParam());
    torch::nn::Sequential none{torch::nn::Tanh()};
    torch::optim::SGD sgd(std::vector<at::Tensor>(), 0.1);
    ShardedModel<torch::nn::Sequential> empty(none, level);
    ShardedOptimizer optimizer(sgd, empty.core());
    const at::Tensor x = torch::ones({2, 6}, torch::requires_grad());
    empty(x).sum().backward();
    EXPECT_TRUE(x.grad().defined());
    EXPECT_EQ(optimizer.clip_grad_norm_(1), 0);
    optimizer.step();
    optimizer.zero_grad();

    testing::Mlp net;
    testing::Mlp plain;
    testing::set_weights(*net);
    testing::set_weights(*plain);
    for (auto& parameter : net->parameters()) {
      parameter.requires_grad_(false);
    }
    ShardedModel<testing::Mlp> frozen(net, level, small_units());
    const at::Tensor input = x.detach().to(torch::kDouble);
    expect_close(frozen(input), plain(input));
    const auto whole = frozen.whole();
    expect_same_parameters(*net, *plain);
  });
}

TEST_P(Levels, AddUpGradients) {
  const OracleModel of = gpt();
  Alone alone{.net = of.make_with_weights()};
  torch::optim::SGD sgd(alone.net.ptr()->parameters(), 0.1);
  for (int step = 0; step < 4; ++step) {
    const auto batch = of.batch(kRows, step);
    testing::loss_of(alone.net.forward(batch.x), batch.target).backward();
    if (step % 2 == 1) {
      sgd.step();
      sgd.zero_grad();
    }
  }
  for (const bool syncs : {false, true}) {
    SCOPED_TRACE(syncs ? "every backward is reduced" : "the last one is");
    testing::run_ranks(3, [&](World& world) {
      AnyModule net = of.make_with_weights();
      torch::optim::SGD inner(net.ptr()->parameters(), 0.1);
      ShardedModel<AnyModule> model(
          net, sharding::level_of(GetParam()), small_units());
      ShardedOptimizer optimizer(inner, model.core());
      for (int step = 0; step < 4; ++step) {
        const auto batch = part(of, step, world);
        std::optional<training::NoSync> alone_now;
        if (!syncs && step % 2 == 0) {
          alone_now.emplace(model.core());
        }
        testing::loss_of(model(batch.x), batch.target).backward();
        if (step % 2 == 1) {
          optimizer.step();
          optimizer.zero_grad();
        }
      }
      const auto whole = model.whole();
      expect_same_parameters(*net.ptr(), *alone.net.ptr());
    });
  }
}

TEST_P(Levels, ClipByTheNormOfAllGradients) {
  const OracleModel of = gpt();
  std::vector<double> norms;
  const Alone alone = train_alone(of, [&](AnyModule& net) {
    norms.push_back(optim::clip_grad_norm_(net.ptr()->parameters(), 0.1));
  });
  testing::run_ranks(3, [&](World& world) {
    AnyModule net = of.make_with_weights();
    optim::AdamW adam(net.ptr()->parameters(), optim::AdamWOptions(1e-2));
    auto [model, optimizer, scaler] = sharding::group_sharded_parallel(
        net, adam, GetParam(), std::nullopt, small_units());
    for (int step = 0; step < kSteps; ++step) {
      optimizer.zero_grad();
      const auto batch = part(of, step, world);
      testing::loss_of(model(batch.x), batch.target).backward();
      EXPECT_NEAR(optimizer.clip_grad_norm_(0.1), norms[step], 1e-9);
      optimizer.step();
    }
    const auto whole = model.whole();
    expect_same_parameters(*net.ptr(), *alone.net.ptr());
  });
}

TEST_P(Levels, ShardWithinGroupsAndAverageBetweenThem) {
  const OracleModel of = gpt();
  const Alone alone = train_alone(of);
  testing::run_ranks(4, [&](World& world) {
    ShardingOptions options = small_units();
    const auto mesh =
        rank_mesh(ProcessMesh::of_shape({2, 2}, {"dp", "sharding"}));
    options.group = mesh->group("sharding");
    options.dp_group = mesh->group("dp");
    expect_trains_as(alone, of, GetParam(), options, world);
  });
}

// A weight that is used in two places, a frozen layer, one that is not used,
// shapes that no number of ranks divides, one parameter that is a column.
struct OddImpl : torch::nn::Module {
  torch::nn::Linear twice = register_module("twice", torch::nn::Linear(7, 7));
  torch::nn::Linear frozen = register_module("frozen", torch::nn::Linear(7, 7));
  torch::nn::Linear unused = register_module("unused", torch::nn::Linear(5, 3));
  torch::nn::Linear last = register_module("last", torch::nn::Linear(7, 3));
  at::Tensor scale = register_parameter("scale", torch::ones({}));
  at::Tensor column = register_parameter("column", torch::ones({3, 7}).t());

  OddImpl() {
    for (auto& parameter : frozen->parameters()) {
      parameter.requires_grad_(false);
    }
  }

  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor inner = twice(frozen(twice(x).tanh()).tanh());
    return last(inner) * scale + inner.matmul(column);
  }
};
TORCH_MODULE(Odd);

OracleModel odd() {
  return {
      .name = "odd",
      .make = [] { return AnyModule(Odd()); },
      .input =
          [](long rows, long seed) {
            return testing::numbers({rows, 7}, seed);
          }};
}

TEST_P(Levels, TakeSharedFrozenAndUnusedParameters) {
  const OracleModel of = odd();
  const Alone alone = train_alone(of);
  for (const int num_ranks : {2, 3}) {
    testing::run_ranks(num_ranks, [&](World& world) {
      ShardingOptions options = small_units();
      options.find_unused_parameters = true;
      expect_trains_as(alone, of, GetParam(), options, world);
    });
  }
}

struct WordsImpl : torch::nn::Module {
  torch::nn::Embedding words = register_module(
      "words",
      torch::nn::Embedding(torch::nn::EmbeddingOptions(9, 5).sparse(true)));
  torch::nn::Linear last = register_module("last", torch::nn::Linear(5, 3));

  at::Tensor forward(const at::Tensor& index) { return last(words(index)); }
};
TORCH_MODULE(Words);

// SGD in one process steps the rows that have a gradient.
TEST_P(Levels, TakeSparseGradients) {
  const auto words = [](long rows, long seed) {
    return (testing::numbers({rows}, seed).abs() * 5000)
        .to(torch::kLong)
        .remainder(9);
  };
  const OracleModel of{
      .name = "words",
      .make = [] { return AnyModule(Words()); },
      .input = words};
  AnyModule alone = of.make_with_weights();
  torch::optim::SGD sgd(alone.ptr()->parameters(), 0.1);
  for (int step = 0; step < 4; ++step) {
    const auto batch = of.batch(kRows, step);
    testing::loss_of(alone.forward(batch.x), batch.target).backward();
    if (step % 2 == 1) {
      sgd.step();
      sgd.zero_grad();
    }
  }
  for (const bool syncs : {false, true}) {
    testing::run_ranks(3, [&](World& world) {
      AnyModule net = of.make_with_weights();
      torch::optim::SGD inner(net.ptr()->parameters(), 0.1);
      ShardedModel<AnyModule> model(
          net, sharding::level_of(GetParam()), small_units());
      ShardedOptimizer optimizer(inner, model.core());
      for (int step = 0; step < 4; ++step) {
        std::optional<training::NoSync> alone_now;
        if (!syncs && step % 2 == 0) {
          alone_now.emplace(model.core());
        }
        const auto batch = part(of, step, world);
        testing::loss_of(model(batch.x), batch.target).backward();
        if (step % 2 == 1) {
          optimizer.step();
          optimizer.zero_grad();
        }
      }
      const auto whole = model.whole();
      expect_same_parameters(*net.ptr(), *alone.ptr());
    });
  }
}

TEST_P(Levels, NameParametersWithoutGradient) {
  const OracleModel of = odd();
  testing::run_ranks(2, [&](World& world) {
    ShardedModel<AnyModule> model(
        of.make_with_weights(), sharding::level_of(GetParam()), small_units());
    const auto batch = part(of, 0, world);
    const at::Tensor loss = testing::loss_of(model(batch.x), batch.target);
    EXPECT_THAT(
        testing::refusal([&] { loss.backward(); }),
        ::testing::HasSubstr("unused.weight, unused.bias"));
  });
}

// What one process without sharding reads of a saved model.
Gpt loaded_plain(const std::string& folder) {
  Gpt plain(testing::small_gpt());
  plain->to(torch::kDouble);
  checkpoint::State state{plain};
  checkpoint::load(folder, state.without_random());
  return plain;
}

TEST_P(Levels, SaveForOneProcessAndLoadOnAnyNumberOfRanks) {
  const OracleModel of = gpt();
  const Alone alone = train_alone(of);
  const TempDir dir("sharded");
  testing::run_ranks(3, [&](World& world) {
    AnyModule net = of.make_with_weights();
    optim::AdamW adam(net.ptr()->parameters(), optim::AdamWOptions(1e-2));
    auto [model, optimizer, scaler] = sharding::group_sharded_parallel(
        net, adam, GetParam(), std::nullopt, small_units());
    for (int step = 0; step < kSteps / 2; ++step) {
      train_step(model, optimizer, part(of, step, world));
    }
    sharding::save_group_sharded_model(model, dir.path() / "half", &optimizer);
  });
  for (const std::string& level : kLevels) {
    SCOPED_TRACE("loaded as " + level);
    testing::run_ranks(2, [&](World& world) {
      AnyModule net = of.make();
      net.ptr()->to(torch::kDouble);
      optim::AdamW adam(net.ptr()->parameters(), optim::AdamWOptions(1e-2));
      auto [model, optimizer, scaler] = sharding::group_sharded_parallel(
          net, adam, level, std::nullopt, small_units());
      sharding::load_group_sharded_model(
          model, dir.path() / "half", &optimizer);
      for (int step = kSteps / 2; step < kSteps; ++step) {
        train_step(model, optimizer, part(of, step, world));
      }
      {
        const auto whole = model.whole();
        expect_same_parameters(*net.ptr(), *alone.net.ptr());
      }
      sharding::save_group_sharded_model(model, dir.path() / level);
    });
    expect_same_parameters(*loaded_plain(dir.path() / level), *alone.net.ptr());
  }
}

// Groups that have copies write each value once between them.
TEST_P(Levels, SaveFromOneOfSeveralGroups) {
  const OracleModel of = gpt();
  const TempDir dir("sharded");
  testing::run_ranks(4, [&](World&) {
    const auto mesh =
        rank_mesh(ProcessMesh::of_shape({2, 2}, {"dp", "sharding"}));
    ShardingOptions options = small_units();
    options.group = mesh->group("sharding");
    options.dp_group = mesh->group("dp");
    ShardedModel<AnyModule> model(
        of.make_with_weights(), sharding::level_of(GetParam()), options);
    for (int i = 0; i < 3; ++i) {
      sharding::save_group_sharded_model(model, dir.path());
    }
    EXPECT_THAT(
        testing::refusal<CheckpointError>([&] {
          sharding::save_group_sharded_model(model, "/proc/nowhere");
        }),
        ::testing::HasSubstr("/proc/nowhere")); // on all ranks
  });
  expect_same_parameters(
      *loaded_plain(dir.path()), *of.make_with_weights().ptr());
}

TEST_P(Levels, CutTheStatesOfAnOptimizerThatHasStepped) {
  const OracleModel of = gpt();
  const Alone alone = train_alone(of);
  testing::run_ranks(2, [&](World& world) {
    AnyModule net = of.make_with_weights();
    optim::AdamW adam(net.ptr()->parameters(), optim::AdamWOptions(1e-2));
    for (int step = 0; step < kSteps; ++step) {
      if (step < kSteps / 2) {
        adam.zero_grad();
        const auto batch = of.batch(kRows, step);
        testing::loss_of(net.forward(batch.x), batch.target).backward();
        adam.step();
      }
    }
    net.ptr()->zero_grad();
    auto [model, optimizer, scaler] = sharding::group_sharded_parallel(
        net, adam, GetParam(), std::nullopt, small_units());
    for (int step = kSteps / 2; step < kSteps; ++step) {
      train_step(model, optimizer, part(of, step, world));
    }
    const auto whole = model.whole();
    expect_same_parameters(*net.ptr(), *alone.net.ptr());
  });
}

// Backward runs forward again, and needs its parameters again.
struct AgainImpl : torch::nn::Module {
  testing::Mlp mlp = register_module("mlp", testing::Mlp());
  torch::nn::Linear last = register_module("last", torch::nn::Linear(3, 3));

  at::Tensor forward(const at::Tensor& x) {
    return last(recompute(
        [this](const at::Tensor& inner) { return mlp->forward(inner); }, x));
  }
};
TORCH_MODULE(Again);

TEST_P(Levels, GoWithRecompute) {
  const OracleModel of{
      .name = "again",
      .make = [] { return AnyModule(Again()); },
      .input =
          [](long rows, long seed) {
            return testing::numbers({rows, 6}, seed);
          }};
  const Alone alone = train_alone(of);
  testing::run_ranks(3, [&](World& world) {
    ShardingOptions options = small_units();
    if (sharding::level_of(GetParam()) == Level::p_g_os) {
      options.units = {"mlp.*"};
    }
    expect_trains_as(alone, of, GetParam(), options, world);
  });
}

TEST(Sharding, RefusesWhatItCannotDo) {
  testing::run_ranks(2, [](World&) {
    const auto refused = [](const auto& action, const char* why) {
      EXPECT_THAT(testing::refusal(action), ::testing::HasSubstr(why));
    };
    refused([] { sharding::level_of("os_p"); }, "expected os, os_g or p_g_os");
    testing::Mlp net;
    testing::Mlp other;
    optim::AdamW adam(other->parameters(), optim::AdamWOptions(1e-2));
    refused(
        [&] { sharding::group_sharded_parallel(net, adam, "os"); },
        "that the model does not have");
    torch::optim::SGD sgd(net->parameters(), 0.1);
    ShardedModel<testing::Mlp> model(net, Level::p_g_os);
    ShardedOptimizer optimizer(sgd, model.core());
    refused([&] { optimizer.state_dict(); }, "optimizer of argosy::optim");
  });
}

TEST(Sharding, RefusesOptionsThatItsLevelDoesNotKnow) {
  testing::run_ranks(2, [](World&) {
    const auto expect_refused =
        [](Level level, const char* option, const ShardingOptions& options) {
          testing::Mlp net;
          EXPECT_THAT(
              testing::refusal(
                  [&] { ShardedModel<testing::Mlp>(net, level, options); }),
              ::testing::HasSubstr(std::string(option) + " with level os"));
        };
    ShardingOptions offloads;
    offloads.offload = offload::OffloadOptions{};
    offloads.offload_grads = true;
    expect_refused(Level::os, "offload_grads", offloads);
    for (const Level level : {Level::os, Level::os_g}) {
      ShardingOptions options;
      options.units = {"first"};
      expect_refused(level, "units", options);
      options = {};
      options.exclude_layer = {"first"};
      expect_refused(level, "exclude_layer", options);
      options = {};
      options.offload = offload::OffloadOptions{};
      options.offload_params = true;
      expect_refused(level, "offload_params", options);
    }
  });
}

TEST(Sharding, NamesAnExcludedLayerThatIsNotThere) {
  testing::run_ranks(2, [](World&) {
    testing::Mlp mlp;
    torch::optim::SGD sgd(mlp->parameters(), 0.1);
    ShardingOptions options;
    options.exclude_layer = {"first", "secnd"};
    EXPECT_THAT(
        testing::refusal([&] {
          sharding::group_sharded_parallel(
              mlp, sgd, "p_g_os", std::nullopt, options);
        }),
        ::testing::HasSubstr(
            "exclude_layer: there is no parameter in a module \"secnd\""));
  });
}

// Inside of whole() nothing communicates, so ranks may evaluate as many batches
// as they have; outside of it, a rank without one runs the model all the same.
TEST(Sharding, RanksMayHaveDifferentNumbersOfEvaluationBatches) {
  testing::run_ranks(3, [](World& world) {
    testing::Mlp mlp;
    testing::set_weights(*mlp);
    const at::Tensor x = testing::numbers({4, 6}, 1);
    const at::Tensor expected = mlp(x).detach();
    torch::optim::SGD sgd(mlp->parameters(), 0.1);
    ShardingOptions options;
    options.segment_size = 0;
    auto [model, optimizer, scaler] = sharding::group_sharded_parallel(
        mlp, sgd, "p_g_os", std::nullopt, options);
    const torch::NoGradGuard no_grad;
    {
      const auto whole = model.whole();
      for (int batch = 0; batch < world.rank(); ++batch) {
        EXPECT_TRUE(torch::allclose(mlp(x), expected));
      }
    }
    for (int batch = 0; batch < 2; ++batch) {
      const bool has_one = batch < world.rank();
      const at::Tensor y = model(has_one ? x : torch::zeros_like(x));
      EXPECT_EQ(torch::allclose(y, expected), has_one);
    }
    // And the next step trains.
    const at::AutoGradMode grad(true);
    model(x).sum().backward();
    optimizer.step();
  });
}

// Each rank draws from a generator of its own, as processes do.
template <typename F>
auto seeded(int seed, const F& make) {
  const torch_hooks::GeneratorScope scope(
      at::make_generator<at::CPUGeneratorImpl>(seed));
  return make();
}

Gpt deferred_gpt() {
  const DeferredInit deferred;
  return Gpt(testing::small_gpt());
}

TEST_P(Levels, TakeModelsThatAreBuiltWithoutMemory) {
  const OracleModel of = gpt();
  for (const auto& options : {ShardingOptions{}, small_units()}) {
    testing::run_ranks(3, [&](World& world) {
      // The first rank's values count.
      Gpt plain = seeded(5, [] { return Gpt(testing::small_gpt()); });
      Gpt net = seeded(5 + world.rank(), [&] {
        Gpt made = deferred_gpt();
        for (const auto& parameter : made->parameters()) {
          EXPECT_TRUE(is_deferred(parameter));
        }
        ShardedModel<Gpt> model(made, sharding::level_of(GetParam()), options);
        {
          const auto whole = model.whole();
          for (const auto& item : plain->named_parameters()) {
            EXPECT_TRUE(
                made->named_parameters()[item.key()].equal(item.value()))
                << item.key();
          }
        }
        // And it trains.
        optim::AdamW adam(made->parameters(), optim::AdamWOptions(1e-2));
        ShardedOptimizer optimizer(adam, model.core());
        const auto batch = part(of, 0, world);
        const double before = train_step(model, optimizer, batch);
        EXPECT_LT(train_step(model, optimizer, batch), before);
        return made;
      });
    });
  }
}

// Parameters that are looked at outside of the wrapper.
TEST(Sharding, ParametersComeWhenTheyAreUsed) {
  testing::run_ranks(3, [](World&) {
    const OracleModel of = gpt();
    AnyModule net = of.make_with_weights();
    AnyModule plain = of.make_with_weights();
    ShardedModel<AnyModule> model(net, Level::p_g_os, small_units());
    // Views too, after others were used.
    const at::Tensor first = net.ptr()->parameters().front().detach();
    const at::Tensor view = first.t();
    expect_same_parameters(*net.ptr(), *plain.ptr());
    expect_close(view.clone(), plain.ptr()->parameters().front().detach().t());
    // What is written stays.
    const at::NoGradGuard no_grad;
    for (const at::Tensor& param : net.ptr()->parameters()) {
      param.mul_(2);
    }
    for (const at::Tensor& param : plain.ptr()->parameters()) {
      param.mul_(2);
    }
    expect_same_parameters(*net.ptr(), *plain.ptr());
  });
}

TEST(Sharding, ParameterOfADestroyedModelSaysSo) {
  testing::run_ranks(2, [](World&) {
    testing::Mlp net;
    { ShardedModel<testing::Mlp> model(net, Level::p_g_os); }
    EXPECT_THAT(
        testing::refusal([&] { net->parameters().front().sum(); }),
        ::testing::HasSubstr("has been destroyed"));
  });
}

// One unit or many, gathered by the forward or not.
TEST(Sharding, SaveOutsideOfWholeSaysWhatToDo) {
  const OracleModel of = gpt();
  const TempDir dir("sharded");
  for (const auto& options : {ShardingOptions{}, small_units()}) {
    testing::run_ranks(2, [&](World& world) {
      Gpt net(testing::small_gpt());
      testing::set_weights(*net);
      ShardedModel<Gpt> model(net, Level::p_g_os, options);
      const auto path = dir.path() / std::to_string(world.rank());
      const auto says_whole = ::testing::AllOf(
          ::testing::HasSubstr("torch::save of parameter "),
          ::testing::HasSubstr("model.whole()"));
      for (const bool has_run : {false, true}) {
        if (has_run) {
          const auto batch = part(of, 0, world);
          testing::loss_of(model(batch.x), batch.target).backward();
        }
        EXPECT_THAT(
            testing::refusal([&] { torch::save(net, path); }), says_whole);
        std::ostringstream out;
        EXPECT_THAT(
            testing::refusal(
                [&] { torch::save(net->parameters().front(), out); }),
            says_whole);
      }
      {
        const auto whole = model.whole();
        torch::save(net, path);
      }
      Gpt plain(testing::small_gpt());
      plain->to(torch::kDouble);
      torch::load(plain, path);
      expect_same_parameters(*plain, *of.make_with_weights().ptr());
      std::ostringstream other;
      torch::save(torch::ones({3}), other); // as ever
    });
  }
}

// Bytes that a rank gives to collectives of one kind in a step.
struct StepBytes {
  std::size_t reduce_scatter = 0;
  std::size_t all_gather = 0;
};

StepBytes traffic() {
  const auto& traffic = get_group()->traffic();
  return {
      traffic.of(comm::OpKind::ReduceScatter).bytes,
      traffic.of(comm::OpKind::AllGather).bytes};
}

TEST_P(Levels, SendNoMoreThanTheyMust) {
  const OracleModel of = gpt();
  for (const int num_ranks : {2, 4}) {
    testing::run_ranks(num_ranks, [&](World& world) {
      AnyModule net = of.make_with_weights();
      optim::AdamW adam(net.ptr()->parameters(), optim::AdamWOptions(1e-2));
      auto [model, optimizer, scaler] = sharding::group_sharded_parallel(
          net, adam, GetParam(), std::nullopt, small_units());
      std::map<std::string, std::size_t> units;
      std::size_t bytes = 0; // of all
      for (const auto& unit : model.core()->plan()) {
        units[unit.name] = unit.buckets[0].bytes();
        bytes += unit.buckets[0].bytes();
      }
      // Forward begins and ends with the tokens; backward finds them there, and
      // has no use for the places.
      const std::size_t expected =
          GetParam() == "p_g_os" ? 2 * bytes - units["places"] : bytes;
      for (int step = 0; step < 3; ++step) {
        SCOPED_TRACE(step);
        const StepBytes before = traffic();
        train_step(model, optimizer, part(of, step, world));
        const StepBytes after = traffic();
        EXPECT_EQ(after.reduce_scatter - before.reduce_scatter, bytes);
        EXPECT_EQ(after.all_gather - before.all_gather, expected);
      }
    });
  }
}

} // namespace
} // namespace argosy
