// Functions that run again in backward: the gradients are those of running
// once, bit for bit, and the memory is measured.

#include <ATen/autocast_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "argosy/comm/ops.h"
#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/compat/fleet_utils.h"
#include "argosy/data_parallel/data_parallel.h"
#include "argosy/observe/tensor_memory.h"
#include "argosy/optim/autocast.h"
#include "argosy/recomputation/replayed_state.h"
#include "argosy/semi_auto/parallelize.h"
#include "argosy/sharding/group_sharded.h"
#include "argosy/tensor_parallel/rng.h"
#include "argosy/testing/gtest_ranks.h"
#include "argosy/testing/ranks.h"
#include "tests/recomputation/expect_equal.h"
#include "tests/support/oracle_models.h"

namespace argosy::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Random numbers in the middle, and a parameter that nobody passes.
struct LayerImpl : torch::nn::Module {
  explicit LayerImpl(long width = 8) {
    up = register_module("up", torch::nn::Linear(width, width));
    down = register_module("down", torch::nn::Linear(width, width));
    long seed = 0;
    const torch::NoGradGuard no_grad;
    for (const at::Tensor& each : parameters()) {
      each.copy_(numbers(each.sizes(), ++seed) / 3);
    }
  }
  at::Tensor forward(const at::Tensor& x) {
    ++calls;
    const at::Tensor y =
        down(torch::dropout(torch::gelu(up(x)), dropout, true));
    ++ends;
    return y + x;
  }

  double dropout = 0.5;
  int calls = 0;
  int ends = 0;
  torch::nn::Linear up = nullptr;
  torch::nn::Linear down = nullptr;
};
TORCH_MODULE(Layer);

at::Tensor input(long rows = 4, long width = 8) {
  return numbers({rows, width}, 5).to(torch::kFloat);
}

using Function = std::function<at::Tensor(const at::Tensor&)>;

// The result, and the gradients of the input and of all parameters.
Tensors results_of(
    torch::nn::Module& module, const Function& function, at::Tensor x) {
  torch::manual_seed(7);
  x = x.detach();
  x.requires_grad_();
  module.zero_grad();
  const at::Tensor y = function(x);
  torch::rand({3}); // backward finds another state of the generator
  y.pow(2).sum().backward();
  Tensors results{y.detach(), x.grad()};
  for (const at::Tensor& parameter : module.parameters()) {
    results.push_back(parameter.grad().clone());
  }
  // And leaves it as it would have been.
  results.push_back(torch::rand({3}));
  return results;
}

TEST(Recompute, GradientsAreEqualBitForBit) {
  Layer layer;
  const Tensors expected = results_of(
      *layer, [&](const at::Tensor& x) { return layer(x); }, input());
  const Tensors got = results_of(
      *layer,
      [&](const at::Tensor& x) { return fleet::utils::recompute(layer, x); },
      input());
  expect_equal(got, expected);
  EXPECT_EQ(layer->calls, 3);
}

TEST(Recompute, RandomNumbersCanBeLeftAlone) {
  Layer layer;
  const auto with = [&](bool preserve) {
    return results_of(
        *layer,
        [&](const at::Tensor& x) {
          return recompute({.preserve_rng_state = preserve}, layer, x);
        },
        input(64));
  };
  EXPECT_FALSE(torch::equal(with(true)[1], with(false)[1]));
}

// Inputs without gradient still have parameters behind them.
TEST(Recompute, OnlyParametersRequireGrad) {
  Layer layer;
  torch::manual_seed(1);
  layer(input()).sum().backward();
  const at::Tensor expected = layer->up->weight.grad().clone();
  layer->zero_grad();
  torch::manual_seed(1);
  recompute(layer, input()).sum().backward();
  EXPECT_TRUE(torch::equal(layer->up->weight.grad(), expected));
}

TEST(Recompute, WithoutGradModeItIsJustCalled) {
  Layer layer;
  {
    const torch::NoGradGuard no_grad;
    EXPECT_FALSE(recompute(layer, input()).requires_grad());
  }
  EXPECT_EQ(layer->calls, 1);
}

TEST(Recompute, AllKindsOfArgumentsAndResults) {
  using Pair = std::pair<at::Tensor, std::optional<at::Tensor>>;
  const auto function = [](const Tensors& list,
                           const Pair& pair,
                           const at::Tensor& absent,
                           double factor) {
    EXPECT_FALSE(absent.defined());
    const at::Tensor product = list.at(0) * list.at(1) * pair.first;
    return std::make_tuple(
        product.exp() * factor, Tensors{pair.second->sin(), list.at(1).cos()});
  };
  const auto gradients = [&](bool again) {
    Tensors x;
    for (const long seed : {1, 2, 3, 4}) {
      x.push_back(numbers({5}, seed).requires_grad_());
    }
    const Tensors list{x[0], x[1]};
    const Pair pair{x[2], x[3]};
    const auto [product, others] = again
        ? recompute(function, list, pair, at::Tensor(), 2.0)
        : function(list, pair, {}, 2.0);
    (product.sum() + others.at(0).prod() + others.at(1).prod()).backward();
    return Tensors{x[0].grad(), x[1].grad(), x[2].grad(), x[3].grad()};
  };
  expect_equal(gradients(true), gradients(false));
}

TEST(Recompute, Nests) {
  Layer first, second, third;
  torch::nn::ModuleList all(first, second, third);
  const Function plain = [&](const at::Tensor& x) {
    return third(second(first(x).tanh()).tanh());
  };
  const Function nested = [&](const at::Tensor& x) {
    return recompute(
        [&](const at::Tensor& a) {
          const at::Tensor b = recompute(
              [&](const at::Tensor& c) {
                return second(recompute(first, c).tanh());
              },
              a);
          return third(b.tanh());
        },
        x);
  };
  const Tensors expected = results_of(*all, plain, input());
  first->calls = second->calls = third->calls = 0;
  expect_equal(results_of(*all, nested, input()), expected);
  EXPECT_EQ(third->calls, 2);
  EXPECT_EQ(second->calls, 3);
  EXPECT_EQ(first->calls, 4);
}

TEST(Recompute, BackwardTwiceAndOfParts) {
  Layer layer;
  torch::manual_seed(1);
  const at::Tensor expected =
      torch::autograd::grad({layer(input()).sum()}, {layer->up->weight})[0];
  torch::manual_seed(1);
  const at::Tensor loss = recompute(layer, input()).sum();
  for (const bool retain : {true, true, false}) {
    const auto gradients = torch::autograd::grad(
        {loss}, {layer->up->weight}, {}, /*retain_graph=*/retain);
    EXPECT_TRUE(torch::equal(gradients[0], expected));
  }
  EXPECT_EQ(layer->calls, 5);
  EXPECT_THROW(loss.backward(), c10::Error);
}

TEST(Recompute, GradientsOfGradients) {
  const auto second = [](bool again) {
    const at::Tensor x = numbers({5}, 1).requires_grad_();
    const auto function = [](const at::Tensor& a) { return (a * a).exp(); };
    const at::Tensor y = again ? recompute(function, x) : function(x);
    const auto first = torch::autograd::grad({y.sum()}, {x}, {}, true, true);
    return torch::autograd::grad({first[0].pow(2).sum()}, {x})[0];
  };
  EXPECT_TRUE(torch::equal(second(true), second(false)));
}

// A function may itself differentiate.
TEST(Recompute, FunctionsThatDifferentiate) {
  const auto gradient = [](bool again) {
    const at::Tensor x = numbers({5}, 1).requires_grad_();
    const auto function = [](const at::Tensor& a) {
      const auto slope =
          torch::autograd::grad({a.exp().sum()}, {a}, {}, true, true);
      return slope[0] * a.sin();
    };
    const at::Tensor y = again ? recompute(function, x) : function(x);
    y.sum().backward();
    return x.grad();
  };
  EXPECT_TRUE(torch::equal(gradient(true), gradient(false)));
}

// The last op that saves something ends the replay.
TEST(Recompute, StopsWhenAllIsThere) {
  for (const bool early : {true, false}) {
    Layer layer;
    recompute({.early_stop = early}, layer, input()).sum().backward();
    EXPECT_EQ(layer->calls, 2);
    EXPECT_EQ(layer->ends, early ? 1 : 2);
  }
}

TEST(Recompute, FunctionsThatChangeAreFound) {
  const auto error_of = [](const auto& function) -> std::string {
    try {
      recompute(function, numbers({4}, 1).requires_grad_()).sum().backward();
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "";
  };
  auto calls = std::make_shared<int>(0);
  EXPECT_THAT(
      error_of([calls](const at::Tensor& x) {
        const at::Tensor y = x.narrow(0, 0, ++*calls).exp();
        return y * y;
      }),
      HasSubstr("Double [2] when it runs again, expected Double [1]"));
  *calls = 0;
  EXPECT_THAT(
      error_of([calls](const at::Tensor& x) {
        return (*calls)++ == 0 ? x.exp().exp() : x.exp();
      }),
      HasSubstr("saves 1 tensors when it runs again, expected 2"));
}

TEST(Recompute, WritingToAnInputIsFound) {
  const at::Tensor x = numbers({4}, 1).requires_grad_();
  const at::Tensor middle = x * 2;
  const at::Tensor y =
      recompute([](const at::Tensor& a) { return a.exp(); }, middle);
  middle.add_(1);
  EXPECT_THROW(y.sum().backward(), c10::Error);
}

// Before main: later, oneDNN may have begun to use what AutoCast forbids it.
const bool kAutoCastIsReady = [] {
  const optim::AutoCast cast;
  return true;
}();

TEST(Recompute, AutocastIsAsItWas) {
  ASSERT_TRUE(kAutoCastIsReady);
  Layer layer;
  const auto run = [&](bool again) {
    return results_of(
        *layer,
        [&](const at::Tensor& x) {
          const optim::AutoCast cast;
          const at::Tensor y = again ? recompute(layer, x) : layer(x);
          return y.to(torch::kFloat);
        },
        input());
  };
  expect_equal(run(true), run(false));
  EXPECT_FALSE(at::autocast::is_cpu_enabled());
}

// The mask that the first run and the replay draw: all that is dropped has no
// gradient.
void expect_same_mask(const std::function<at::Tensor(const at::Tensor&)>& run) {
  const at::Tensor x = torch::ones({1000}).requires_grad_();
  const at::Tensor y = run(x);
  y.pow(2).sum().backward();
  EXPECT_TRUE(torch::equal(y != 0, x.grad() != 0));
  const auto kept = (y != 0).sum().item<int>();
  EXPECT_GT(kept, 150);
  EXPECT_LT(kept, 700);
}

// Saves the product, and so needs the mask again.
at::Tensor drop(const at::Tensor& x) {
  return torch::dropout(x, 0.5, true).exp() - 1;
}

// They share torch's generator, and draw at the same time.
TEST(RecomputeRanks, ThreadsDrawTheSameAgain) {
  run_ranks(4, [](World&) {
    for (int i = 0; i < 20; ++i) {
      expect_same_mask([](const at::Tensor& x) {
        return recompute(
            [](const at::Tensor& in) {
              return drop(in) * recompute(&drop, in);
            },
            x);
      });
    }
  });
}

// Streams of tensor parallelism, around recompute() and within.
TEST(RecomputeRanks, StreamsOfTensorParallelism) {
  run_ranks(2, [](World&) {
    model_parallel_random_seed(5);
    for (int i = 0; i < 3; ++i) {
      expect_same_mask([](const at::Tensor& x) {
        const auto scope = rng_states_tracker()->rng_state();
        return recompute(&drop, x);
      });
      expect_same_mask([](const at::Tensor& x) {
        return recompute(
            [](const at::Tensor& in) {
              const auto scope = rng_states_tracker()->rng_state();
              return drop(in);
            },
            x);
      });
    }
  });
}

TEST(Recompute, OtherStatesCanBeAdded) {
  run_ranks(2, [](World&) {
    auto state = std::make_shared<double>(2);
    add_replayed_state([state]() -> RestoreState {
      return [state, then = *state] {
        const double now = std::exchange(*state, then);
        return std::shared_ptr<void>(
            nullptr, [state, now](void*) { *state = now; });
      };
    });
    const at::Tensor x = numbers({4}, 1).requires_grad_();
    const at::Tensor y = recompute(
        [state](const at::Tensor& a) { return (a * *state).exp(); }, x);
    *state = 3;
    y.sum().backward();
    EXPECT_TRUE(torch::equal(x.grad(), (x * 2).exp() * 2));
    EXPECT_EQ(*state, 3);
  });
}

// A module list in which each is recomputed, or none.
struct Deep {
  static constexpr long kLayers = 8;
  static constexpr long kRows = 512;
  static constexpr long kWidth = 64;
  static constexpr std::int64_t kBytes = kRows * kWidth * 4; // an activation

  std::vector<torch::nn::Linear> layers;

  Deep() {
    for (long i = 0; i < kLayers; ++i) {
      layers.emplace_back(kWidth, kWidth);
    }
  }

  // Saves three activations.
  static at::Tensor step(torch::nn::Linear& layer, const at::Tensor& x) {
    return layer(x.tanh().sin()).tanh().sin();
  }

  // The peak of memory in bytes above what there was before.
  std::int64_t peak(const RecomputeOptions* options) {
    TensorMemory memory;
    at::Tensor x = torch::ones({kRows, kWidth});
    for (torch::nn::Linear& layer : layers) {
      layer->zero_grad();
      layer->weight.mutable_grad() = torch::zeros_like(layer->weight);
      layer->bias.mutable_grad() = torch::zeros_like(layer->bias);
    }
    memory.reset_peak();
    const std::int64_t before = memory.current();
    for (torch::nn::Linear& layer : layers) {
      x = options == nullptr ? step(layer, x)
                             : recompute(*options, &step, layer, x);
    }
    x.sum().backward();
    x = at::Tensor();
    EXPECT_LT(memory.current(), before); // x is gone
    return memory.peak() - before;
  }
};

// Without: three a layer. With: one a layer, and what one layer needs, which is
// its saved tensors, their gradients and the result.
TEST(RecomputeMemory, InputsInPlaceOfAllThatIsSaved) {
  Deep deep;
  const auto in_activations = [](std::int64_t bytes) {
    return static_cast<double>(bytes) / Deep::kBytes;
  };
  const double plain = in_activations(deep.peak(nullptr));
  const RecomputeOptions kept;
  const double again = in_activations(deep.peak(&kept));
  const RecomputeOptions filed{.store = open_file_activation_store()};
  const double stored = in_activations(deep.peak(&filed));
  EXPECT_GE(plain, 3 * Deep::kLayers);
  EXPECT_LE(again, Deep::kLayers + 6);
  EXPECT_LE(stored, 7);
}

TEST(RecomputeMemory, InputsPartitioned) {
  run_ranks(4, [](World&) {
    Deep deep;
    const RecomputeOptions options{.partition = get_group(0)};
    EXPECT_LE(
        static_cast<double>(deep.peak(&options)) / Deep::kBytes,
        Deep::kLayers / 4.0 + 8);
  });
}

TEST(RecomputeRanks, PartitionedAndStoredInputsGiveTheSame) {
  run_ranks(3, [](World& world) {
    const auto store = open_file_activation_store();
    const RecomputeOptions all_options[] = {
        {.partition = get_group(0)},
        {.store = store},
        {.partition = get_group(0), .store = store}};
    const auto gradient = [&](const RecomputeOptions* options) {
      const at::Tensor x = numbers({5, 7}, 1).requires_grad_();
      // Not contiguous, of 35 elements for 3 ranks; and one of no elements.
      const at::Tensor inner = (x * 3).t();
      const at::Tensor none = inner.narrow(0, 0, 0);
      const auto function = [](const at::Tensor& a, const at::Tensor& b) {
        return torch::matmul(a.exp(), a.t().sin()).sum() + b.sum();
      };
      const at::Tensor y = options == nullptr
          ? function(inner, none)
          : recompute(*options, function, inner, none);
      y.backward();
      return x.grad();
    };
    const at::Tensor expected = gradient(nullptr);
    for (const RecomputeOptions& options : all_options) {
      EXPECT_TRUE(torch::equal(gradient(&options), expected)) << world.rank();
    }
  });
}

TEST(ActivationStore, GivesBackWhatWasPut) {
  const TempDir folder;
  const auto store = open_file_activation_store(folder.path());
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  const auto bytes = [](std::size_t size, int first) {
    std::vector<std::byte> all(size);
    for (std::size_t i = 0; i < size; ++i) {
      all[i] = static_cast<std::byte>(first + i);
    }
    return all;
  };
  const auto a = store->put(bytes(10000, 1));
  const auto b = store->put(bytes(3, 2));
  const auto expect_is = [&](auto ticket, std::size_t size, int first) {
    std::vector<std::byte> got(size);
    store->get(ticket, got);
    EXPECT_EQ(got, bytes(size, first));
  };
  expect_is(a, 10000, 1);
  expect_is(b, 3, 2);
  store->drop(a);
  EXPECT_EQ(store->put(bytes(9000, 3)), a); // its space
  expect_is(b, 3, 2);
  EXPECT_THROW(
      open_file_activation_store(folder.path() / "nowhere"), SystemError);
}

torch::nn::Sequential layers(int count) {
  torch::nn::Sequential all;
  for (int i = 0; i < count; ++i) {
    all->push_back(Layer());
  }
  return all;
}

int calls_of(torch::nn::Sequential& all, std::size_t i) {
  return std::exchange(all->at<LayerImpl>(i).calls, 0);
}

TEST(RecomputeSequential, AllSegmentsButTheLast) {
  torch::nn::Sequential all = layers(5);
  const Tensors expected = results_of(
      *all, [&](const at::Tensor& x) { return all->forward(x); }, input());
  for (int i = 0; i < 5; ++i) {
    calls_of(all, i);
  }
  const Tensors got = results_of(
      *all,
      [&](const at::Tensor& x) { return recompute_sequential(2, *all, x); },
      input());
  expect_equal(got, expected);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(calls_of(all, i), i < 3 ? 2 : 1) << i;
  }
  EXPECT_THROW(recompute_sequential(6, *all, input()), InvalidArgument);
  EXPECT_THROW(recompute_sequential(0, *all, input()), InvalidArgument);
}

struct ModelImpl : torch::nn::Module {
  torch::nn::Sequential body = register_module("body", layers(4));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(8, 2));

  at::Tensor forward(const at::Tensor& x) { return head(body->forward(x)); }
};
TORCH_MODULE(Model);

TEST(RecomputeModules, OfAnUnchangedModel) {
  Model model;
  const Function forward = [&](const at::Tensor& x) { return model(x); };
  const Tensors expected = results_of(*model, forward, input());
  const auto names = model->named_parameters().keys();
  EXPECT_THAT(
      recompute_modules(*model, R"(body\.[12])"),
      ElementsAre("body.1", "body.2"));
  expect_equal(results_of(*model, forward, input()), expected);
  EXPECT_EQ(model->named_parameters().keys(), names);
}

TEST(RecomputeModules, EveryNth) {
  Model model;
  const Function forward = [&](const at::Tensor& x) { return model(x); };
  const Tensors expected = results_of(*model, forward, input());
  std::vector<LayerImpl*> inner;
  for (int i = 0; i < 4; ++i) {
    calls_of(model->body, i);
    inner.push_back(&model->body->at<LayerImpl>(i));
  }
  EXPECT_THAT(recompute_every(*model, 2), ElementsAre("body.0", "body.2"));
  expect_equal(results_of(*model, forward, input()), expected);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(inner[i]->calls, i % 2 == 0 ? 2 : 1) << i;
  }
}

TEST(RecomputeModules, WhatCannotBeReachedIsSaid) {
  Model model;
  EXPECT_THAT(
      [&] { recompute_modules(*model, "head"); },
      ThrowsMessage<InvalidArgument>(HasSubstr("head is not a child")));
  EXPECT_THAT(
      [&] { recompute_modules(*model, "nothing"); },
      ThrowsMessage<InvalidArgument>(HasSubstr("no module matches")));
  EXPECT_THROW(recompute_every(*model, 0), InvalidArgument);
}

// Blocks of the GPT example, with dropout between them.
struct BlocksImpl : torch::nn::Module {
  Block first = register_module("first", Block(GptOptions{.width = 16}));
  Block second = register_module("second", Block(GptOptions{.width = 16}));
  std::optional<RecomputeOptions> options;

  BlocksImpl() {
    const torch::NoGradGuard no_grad;
    long seed = 0;
    for (const at::Tensor& each : parameters()) {
      each.copy_(numbers(each.sizes(), ++seed) / 3);
    }
  }

  at::Tensor forward(at::Tensor x) {
    const at::Tensor ahead = torch::ones({6, 6}, torch::kBool).triu(1);
    for (Block* block : {&first, &second}) {
      const auto run = [=](const at::Tensor& in) {
        return torch::dropout((*block)->forward(in, ahead), 0.25, true);
      };
      x = options ? recompute(*options, run, x) : run(x);
    }
    return x;
  }
};
TORCH_MODULE(Blocks);

// A model whose parameters became DTensors, without and with recompute.
TEST(RecomputeRanks, ModelsOfDTensors) {
  run_ranks(2, [](World&) {
    const ProcessMesh mesh = ProcessMesh::of_shape({2}, {"mp"});
    const ParallelizeConfig::Mp mp{
        {{R"(.*\.(qkv|up))", ColWiseParallel()},
         {R"(.*\.(out|down))", RowWiseParallel()}}};
    const auto gradients = [&](std::optional<RecomputeOptions> options) {
      Blocks blocks;
      blocks->options = std::move(options);
      parallelize(*blocks, mesh, {.mp_config = mp});
      dtensor_manual_seed(3);
      const at::Tensor x = shard_tensor(
          numbers({2, 6, 16}, 9).to(torch::kFloat), mesh, {Replicate()});
      blocks->forward(x).pow(2).sum().backward();
      Tensors all;
      for (const at::Tensor& each : blocks->parameters()) {
        all.push_back(full_tensor(each.grad()));
      }
      return all;
    };
    const Tensors expected = gradients({});
    expect_equal(gradients(RecomputeOptions{}), expected);
    expect_equal(
        gradients(RecomputeOptions{
            .partition = get_group(0), .store = open_file_activation_store()}),
        expected);
  });
}

// States, gradients and parameters spread over the ranks, which are gathered
// for the replay once more.
TEST(RecomputeRanks, UnderSharding) {
  run_ranks(2, [](World& world) {
    const auto train = [&](const std::string& level, bool again) {
      Model model;
      torch::nn::init::constant_(model->head->weight, 0.5);
      torch::nn::init::constant_(model->head->bias, 0.5);
      for (int i = 0; i < 4; ++i) {
        model->body->at<LayerImpl>(i).dropout = 0;
      }
      if (again) {
        recompute_every(*model, 1);
      }
      torch::optim::SGD sgd(model->parameters(), 0.01);
      auto [sharded, optimizer, scaler] =
          sharding::group_sharded_parallel(model, sgd, level);
      std::vector<double> losses;
      for (int step = 0; step < 3; ++step) {
        optimizer.zero_grad();
        const at::Tensor loss =
            sharded.forward(input() + world.rank() + step).pow(2).mean();
        loss.backward();
        optimizer.step();
        losses.push_back(loss.template item<double>());
      }
      return losses;
    };
    for (const std::string level : {"os", "os_g", "p_g_os"}) {
      EXPECT_EQ(train(level, true), train(level, false)) << level;
    }
  });
}

// Real processes, each with its own random numbers, under data parallelism.
TEST(RecomputeRanks, DataParallelProcesses) {
  run_process_ranks(2, [](World& world) {
    const auto gradients = [&](bool again) {
      Model model;
      for (const at::Tensor& each : model->head->parameters()) {
        torch::nn::init::constant_(each, 0.5);
      }
      if (again) {
        recompute_every(*model, 1);
      }
      DataParallel<Model> parallel(model);
      torch::manual_seed(world.rank());
      parallel(input() + world.rank()).pow(2).sum().backward();
      return model->body->named_parameters()["0.up.weight"].grad().clone();
    };
    EXPECT_TRUE(torch::equal(gradients(true), gradients(false)));
  });
}

} // namespace
} // namespace argosy::testing
