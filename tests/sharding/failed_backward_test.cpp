// An exception in the middle of backward: the next step works, and gives what a
// run without the exception gives.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

#include "argosy/comm/call_timeout.h"
#include "argosy/common/error.h"
#include "argosy/compat/group_sharded_model.h"
#include "argosy/data_parallel/compression.h"
#include "argosy/data_parallel/data_parallel.h"
#include "argosy/optim/adam.h"
#include "argosy/sharding/group_sharded.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"

namespace argosy {
namespace {

using sharding::ShardedModel;
using sharding::ShardedOptimizer;
using sharding::ShardingOptions;

struct Boom : std::runtime_error {
  Boom() : std::runtime_error("boom") {}
};

// Backward throws between the second layer and the first when `fails`.
struct NetImpl : torch::nn::Module {
  torch::nn::Linear first = register_module("first", layer(6, 8));
  torch::nn::Linear second = register_module("second", layer(8, 8));
  torch::nn::Linear third = register_module("third", layer(8, 3));
  bool fails = false;

  NetImpl() {
    const at::NoGradGuard no_grad;
    int index = 0;
    for (auto& parameter : parameters()) {
      parameter.copy_(
          ((torch::arange(parameter.numel()) * 37 + 11 * ++index) % 23 - 11)
              .reshape(parameter.sizes()) /
          40.);
    }
  }

  static torch::nn::Linear layer(int in, int out) {
    torch::nn::Linear linear(in, out);
    linear->to(torch::kDouble);
    return linear;
  }

  at::Tensor forward(const at::Tensor& x) {
    at::Tensor y = first(x).tanh();
    y.register_hook([this](const at::Tensor& gradient) {
      if (fails) {
        throw Boom();
      }
      return gradient;
    });
    return third(second(y).tanh());
  }
};
TORCH_MODULE(Net);

at::Tensor loss_of(const at::Tensor& y, int step) {
  return (y - 0.1 * step).pow(2).mean();
}

at::Tensor input(int step, int rank) {
  return ((torch::arange(24) * 29 + 7 * step + 3 * rank) % 19 - 9)
             .to(torch::kDouble)
             .reshape({4, 6}) /
      10;
}

std::vector<at::Tensor> values_of(const torch::nn::Module& module) {
  std::vector<at::Tensor> values;
  for (const auto& parameter : module.parameters()) {
    values.push_back(parameter.detach().clone());
  }
  return values;
}

void expect_equal(
    const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(torch::equal(a[i], b[i])) << "parameter " << i;
  }
}

// Trains for five steps; before those in `failing`, backward of the same step
// throws once.
template <typename Model, typename Optimizer>
void train(
    Net& net,
    Model& model,
    Optimizer& optimizer,
    const World& world,
    const std::vector<int>& failing) {
  for (int step = 0; step < 5; ++step) {
    const auto backward = [&] {
      optimizer.zero_grad();
      loss_of(model(input(step, world.rank())), step).backward();
    };
    if (std::find(failing.begin(), failing.end(), step) != failing.end()) {
      net->fails = true;
      EXPECT_THROW(backward(), Boom);
      net->fails = false;
    }
    backward();
    optimizer.step();
  }
}

struct DataParallelCase {
  const char* name;
  std::function<DataParallelOptions()> options;
};

class FailedDataParallel : public ::testing::TestWithParam<DataParallelCase> {};
INSTANTIATE_TEST_SUITE_P(
    FailedBackward,
    FailedDataParallel,
    ::testing::Values(
        DataParallelCase{"plain", [] { return DataParallelOptions{}; }},
        DataParallelCase{
            "find_unused",
            [] { return DataParallelOptions{.find_unused_parameters = true}; }},
        DataParallelCase{
            "static_graph",
            [] { return DataParallelOptions{.static_graph = true}; }},
        DataParallelCase{
            "bf16",
            [] { return DataParallelOptions{.hook = bf16_compression()}; }},
        DataParallelCase{
            "power_sgd",
            [] {
              return DataParallelOptions{
                  .hook = power_sgd(
                      {.rank = 1, .start_step = 2, .min_compression = 1})};
            }}),
    [](const auto& of) { return of.param.name; });

std::vector<at::Tensor> train_data_parallel(
    DataParallelOptions options,
    const World& world,
    const std::vector<int>& failing) {
  Net net;
  options.fusion = data_parallel::Fusion::Mode::None;
  DataParallel model(net, std::move(options));
  torch::optim::SGD optimizer(
      net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  train(net, model, optimizer, world, failing);
  return values_of(*net);
}

TEST_P(FailedDataParallel, IsAsIfItHadNotBeen) {
  for (const std::vector<int>& failing :
       {std::vector<int>{0}, std::vector<int>{2, 4}}) {
    testing::run_ranks(3, [&](World& world) {
      const auto expected =
          train_data_parallel(GetParam().options(), world, {});
      expect_equal(
          train_data_parallel(GetParam().options(), world, failing), expected);
    });
  }
}

class FailedSharding : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(
    FailedBackward,
    FailedSharding,
    ::testing::Values("os", "os_g", "p_g_os"),
    [](const auto& of) { return of.param; });

std::vector<at::Tensor> train_sharded(
    const std::string& level,
    bool find_unused,
    const World& world,
    const std::vector<int>& failing) {
  Net net;
  ShardingOptions options;
  options.buffer_max_size = 300;
  options.segment_size = 100;
  options.find_unused_parameters = find_unused;
  optim::AdamW adam(net->parameters(), optim::AdamWOptions(1e-2));
  ShardedModel<Net> model(net, sharding::level_of(level), options);
  ShardedOptimizer optimizer(adam, model.core());
  train(net, model, optimizer, world, failing);
  const auto whole = model.whole();
  return values_of(*net);
}

TEST_P(FailedSharding, IsAsIfItHadNotBeen) {
  for (const bool find_unused : {false, true}) {
    for (const std::vector<int>& failing :
         {std::vector<int>{0}, std::vector<int>{2, 4}}) {
      testing::run_ranks(3, [&](World& world) {
        const auto expected = train_sharded(GetParam(), find_unused, world, {});
        expect_equal(
            train_sharded(GetParam(), find_unused, world, failing), expected);
      });
    }
  }
}

// Gradients that earlier backward passes of the step have left stay.
TEST_P(FailedSharding, KeepsWhatHadAddedUp) {
  testing::run_ranks(2, [&](World& world) {
    std::vector<std::vector<at::Tensor>> results;
    for (const bool fails : {false, true}) {
      Net net;
      ShardingOptions options;
      options.buffer_max_size = 300;
      options.segment_size = 100;
      torch::optim::SGD sgd(net->parameters(), 0.1);
      ShardedModel<Net> model(net, sharding::level_of(GetParam()), options);
      ShardedOptimizer optimizer(sgd, model.core());
      const auto backward = [&](int step) {
        loss_of(model(input(step, world.rank())), step).backward();
      };
      backward(0);
      if (fails) {
        net->fails = true;
        EXPECT_THROW(backward(1), Boom);
        net->fails = false;
      }
      backward(2);
      optimizer.step();
      const auto whole = model.whole();
      results.push_back(values_of(*net));
    }
    expect_equal(results[0], results[1]);
  });
}

// At the third level, parameters have no values outside of whole().
int num_readable(const torch::nn::Module& module) {
  int count = 0;
  for (const auto& parameter : module.parameters()) {
    try {
      count += std::isfinite(parameter.sum().item<double>()) ? 1 : 0;
    } catch (const std::exception&) {
      continue;
    }
  }
  return count;
}

// Nor does a save that fails leave a trace: no parameter stays gathered.
TEST_P(FailedSharding, ASaveLeavesTheModelAsItWas) {
  testing::run_ranks(2, [&](World& world) {
    std::vector<std::vector<at::Tensor>> results;
    for (const bool fails : {false, true}) {
      Net net;
      ShardingOptions options;
      options.buffer_max_size = 300;
      options.segment_size = 100;
      optim::AdamW adam(net->parameters(), optim::AdamWOptions(1e-2));
      ShardedModel<Net> model(net, sharding::level_of(GetParam()), options);
      ShardedOptimizer optimizer(adam, model.core());
      train(net, model, optimizer, world, {});
      if (fails) {
        const int before = num_readable(*net);
        EXPECT_THROW(
            sharding::save_group_sharded_model(
                model, "/proc/nowhere", &optimizer),
            Error);
        EXPECT_EQ(num_readable(*net), before);
      }
      train(net, model, optimizer, world, {});
      const auto whole = model.whole();
      results.push_back(values_of(*net));
    }
    expect_equal(results[0], results[1]);
  });
}

// Rank 1 alone fails in its second step, and goes on: all ranks get an error,
// because they disagree about what they do.
template <typename Train>
void expect_disagreement(const Train& train_once) {
  testing::run_ranks(3, [&](World& world) {
    Net net;
    const auto step = train_once(net, world);
    step();
    net->fails = world.rank() == 1;
    if (net->fails) {
      EXPECT_THROW(step(), Boom);
      net->fails = false;
    }
    EXPECT_THROW((step(), step()), Error);
  });
}

// It does not go on: the others wait for it until their deadline.
template <typename Train>
void expect_deadline(const Train& train_once) {
  try {
    testing::run_ranks(3, [&](World& world) {
      Net net;
      const auto step = train_once(net, world);
      step();
      net->fails = world.rank() == 1;
      std::optional<CallTimeout> limit;
      if (!net->fails) {
        limit.emplace(std::chrono::seconds(1));
      }
      EXPECT_THROW(step(), std::runtime_error);
    });
  } catch (const RankFailed&) { // the world may not end in peace
  }
}

TEST(FailedBackwardOfOneRank, EndsDataParallelWithAnError) {
  const auto train_once = [](Net& net, World& world) {
    auto model = std::make_shared<DataParallel<Net>>(
        net, DataParallelOptions{.fusion = data_parallel::Fusion::Mode::None});
    return [net, model, &world] {
      model->zero_grad();
      loss_of((*model)(input(0, world.rank())), 0).backward();
    };
  };
  expect_disagreement(train_once);
  expect_deadline(train_once);
}

TEST_P(FailedSharding, OfOneRankEndsWithAnError) {
  const auto train_once = [](Net& net, World& world) {
    ShardingOptions options;
    options.buffer_max_size = 300;
    options.segment_size = 100;
    auto model = std::make_shared<ShardedModel<Net>>(
        net, sharding::level_of(GetParam()), options);
    return [net, model, &world] {
      model->zero_grad();
      loss_of((*model)(input(0, world.rank())), 0).backward();
    };
  };
  expect_disagreement(train_once);
  expect_deadline(train_once);
}

} // namespace
} // namespace argosy
