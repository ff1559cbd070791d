// torch::load() into what ZeRO has cut: it gives parameters new memory, which
// must not part them from their shards.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <sstream>

#include "argosy/common/error.h"
#include "argosy/optim/adam.h"
#include "argosy/sharding/group_sharded.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"
#include "tests/support/numbers.h"
#include "tests/support/oracle_models.h"
#include "tests/support/refusal.h"

namespace argosy {
namespace {

using argosy::testing::numbers;
using argosy::testing::refusal;
using argosy::testing::run_ranks;
using ::testing::HasSubstr;

torch::nn::Sequential make_net(double scale) {
  torch::nn::Sequential net(
      torch::nn::Linear(4, 6), torch::nn::Tanh(), torch::nn::Linear(6, 3));
  net->to(torch::kDouble);
  const torch::NoGradGuard no_grad;
  long seed = 0;
  for (const at::Tensor& each : net->parameters()) {
    each.copy_(numbers(each.sizes(), ++seed) * scale);
  }
  return net;
}

at::Tensor loss_of(const at::Tensor& y) {
  return (y - 1).pow(2).mean();
}

at::Tensor batch(long step) {
  return numbers({4, 4}, 40 + step);
}

sharding::ShardingOptions small_units() {
  sharding::ShardingOptions options;
  options.segment_size = 0;
  return options;
}

void expect_same(torch::nn::Module& got, torch::nn::Module& expected) {
  const auto wanted = expected.named_parameters();
  for (const auto& item : got.named_parameters()) {
    EXPECT_TRUE(torch::allclose(item.value(), wanted[item.key()], 1e-9, 1e-11))
        << item.key() << "\n"
        << item.value() << "\n"
        << wanted[item.key()];
  }
}

std::string file_of(torch::nn::Sequential net) {
  std::ostringstream out;
  torch::save(net, out);
  return out.str();
}

// Steps from the values of a file, in the middle of a run and while an
// optimizer has states.
torch::nn::Sequential train_alone(const std::string& file) {
  torch::nn::Sequential net = make_net(1);
  optim::Adam adam(net->parameters(), optim::AdamOptions(0.05));
  for (long step = 0; step < 4; ++step) {
    if (step == 2) {
      std::istringstream in(file);
      torch::load(net, in);
    }
    adam.zero_grad();
    loss_of(net->forward(batch(step))).backward();
    adam.step();
  }
  return net;
}

enum class When { Outside, Whole, AfterForward };

class LoadInto : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(
    Zero, LoadInto, ::testing::Values("os", "os_g", "p_g_os"));

TEST_P(LoadInto, TrainsOnAsOneProcess) {
  const std::string file = file_of(make_net(0.5));
  torch::nn::Sequential alone = train_alone(file);
  for (const When when : {When::Outside, When::Whole, When::AfterForward}) {
    run_ranks(2, [&](World&) {
      torch::nn::Sequential net = make_net(1);
      optim::Adam adam(net->parameters(), optim::AdamOptions(0.05));
      auto [model, optimizer, scaler] = sharding::group_sharded_parallel(
          net, adam, GetParam(), std::nullopt, small_units());
      const auto load = [&] {
        std::istringstream in(file);
        torch::load(net, in);
      };
      for (long step = 0; step < 4; ++step) {
        if (step == 2 && when == When::Whole) {
          const auto whole = model.whole();
          load();
          expect_same(*net, *make_net(0.5));
        } else if (step == 2) {
          if (when == When::AfterForward) {
            (void)model(batch(step));
          }
          load();
        }
        optimizer.zero_grad();
        loss_of(model(batch(step))).backward();
        optimizer.step();
      }
      const auto whole = model.whole();
      expect_same(*net, *alone);
    });
  }
}

TEST_P(LoadInto, IsThereBeforeTheNextForward) {
  const std::string file = file_of(make_net(0.5));
  run_ranks(2, [&](World&) {
    torch::nn::Sequential net = make_net(1);
    optim::Adam adam(net->parameters(), optim::AdamOptions(0.05));
    auto [model, optimizer, scaler] = sharding::group_sharded_parallel(
        net, adam, GetParam(), std::nullopt, small_units());
    std::istringstream in(file);
    torch::load(net, in);
    EXPECT_TRUE(
        torch::allclose(model(batch(0)), make_net(0.5)->forward(batch(0))));
    const auto whole = model.whole();
    expect_same(*net, *make_net(0.5));
  });
}

TEST_P(LoadInto, RefusesAnotherShape) {
  torch::nn::Sequential other(
      torch::nn::Linear(4, 7), torch::nn::Tanh(), torch::nn::Linear(7, 3));
  other->to(torch::kDouble);
  const std::string file = file_of(other);
  run_ranks(2, [&](World&) {
    torch::nn::Sequential net = make_net(1);
    optim::Adam adam(net->parameters(), optim::AdamOptions(0.05));
    auto [model, optimizer, scaler] = sharding::group_sharded_parallel(
        net, adam, GetParam(), std::nullopt, small_units());
    EXPECT_THAT(
        refusal([&] {
          std::istringstream in(file);
          torch::load(net, in);
          (void)model(batch(0));
        }),
        HasSubstr("expected [6, 4]"));
  });
}

// The states of whole parameters do not fit the pieces of a rank. (Optimizers
// of torch notice it by the number of parameters, or in their next step.)
template <typename Adam, typename Options>
void load_states_of_whole(const char* level) {
  std::ostringstream out;
  {
    torch::nn::Sequential net = make_net(1);
    Adam adam(net->parameters(), Options(0.05));
    loss_of(net->forward(batch(0))).backward();
    adam.step();
    torch::save(adam, out);
  }
  run_ranks(2, [&](World&) {
    torch::nn::Sequential net = make_net(1);
    Adam adam(net->parameters(), Options(0.05));
    auto [model, optimizer, scaler] = sharding::group_sharded_parallel(
        net, adam, level, std::nullopt, small_units());
    const auto step = [&, &model = model, &optimizer = optimizer] {
      optimizer.zero_grad();
      loss_of(model(batch(1))).backward();
      optimizer.step();
    };
    const auto load = [&] {
      std::istringstream in(out.str());
      torch::load(adam, in);
    };
    EXPECT_THAT(refusal(load), HasSubstr("load_state_dict"));
    step(); // as if nothing had been
  });
}

TEST_P(LoadInto, RefusesStatesOfWholeParameters) {
  load_states_of_whole<optim::Adam, optim::AdamOptions>(GetParam());
}

// Each rank its own pieces: the same layout fits.
template <typename Adam, typename Options>
void load_own_states(const char* level) {
  run_ranks(2, [&](World&) {
    std::string states;
    std::vector<at::Tensor> results;
    for (const bool resumes : {false, true}) {
      torch::nn::Sequential net = make_net(1);
      Adam adam(net->parameters(), Options(0.05));
      auto [model, optimizer, scaler] = sharding::group_sharded_parallel(
          net, adam, level, std::nullopt, small_units());
      if (resumes) {
        std::istringstream in(states);
        torch::load(adam, in);
      }
      for (long step = resumes ? 1 : 0; step < 2; ++step) {
        if (!resumes && step == 1) {
          std::ostringstream out;
          torch::save(adam, out);
          states = out.str();
          const auto whole = model.whole();
          const torch::NoGradGuard no_grad;
          auto start = make_net(1)->parameters();
          for (std::size_t i = 0; i < start.size(); ++i) {
            net->parameters()[i].copy_(start[i]);
          }
        }
        optimizer.zero_grad();
        loss_of(model(batch(step))).backward();
        optimizer.step();
      }
      const auto whole = model.whole();
      for (const at::Tensor& each : net->parameters()) {
        results.push_back(each.detach().clone());
      }
    }
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_TRUE(torch::allclose(results[i], results[i + 4])) << i;
    }
  });
}

TEST_P(LoadInto, TakesTheStatesOfItsOwnPieces) {
  load_own_states<optim::Adam, optim::AdamOptions>(GetParam());
  load_own_states<torch::optim::Adam, torch::optim::AdamOptions>(GetParam());
}

} // namespace
} // namespace argosy
