// Modules of any model that run again in backward, found by the ops that use
// their parameters: the gradients are those of running once, bit for bit.

#include "argosy/recomputation/modules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "argosy/comm/functional.h"
#include "argosy/comm/ops.h"
#include "argosy/common/error.h"
#include "argosy/observe/tensor_memory.h"
#include "argosy/optim/autocast.h"
#include "argosy/recomputation/recompute.h"
#include "argosy/semi_auto/parallelize.h"
#include "argosy/sharding/group_sharded.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"
#include "tests/recomputation/expect_equal.h"
#include "tests/support/oracle_models.h"
#include "tests/support/refusal.h"

namespace argosy::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Tensors = std::vector<at::Tensor>;

// What it saves is what it was given.
struct Cube : torch::autograd::Function<Cube> {
  static at::Tensor forward(
      torch::autograd::AutogradContext* context, const at::Tensor& x) {
    context->save_for_backward({x});
    return x.pow(3);
  }
  static torch::autograd::tensor_list backward(
      torch::autograd::AutogradContext* context,
      torch::autograd::tensor_list gradients) {
    return {gradients[0] * 3 * context->get_saved_variables()[0].pow(2)};
  }
};

// All that a forward may do: random numbers, writes in place, buffers, numbers
// that C++ code fills in, questions for values, Functions, code without grad.
struct OddBlockImpl : torch::nn::Module {
  torch::nn::BatchNorm1d norm =
      register_module("norm", torch::nn::BatchNorm1d(8));
  torch::nn::Linear up = register_module("up", torch::nn::Linear(8, 8));
  torch::nn::Linear down = register_module("down", torch::nn::Linear(8, 8));
  at::Tensor shift = register_buffer("shift", torch::ones({8}));

  // Two arguments and two results.
  std::pair<at::Tensor, at::Tensor> forward(
      const at::Tensor& x, const at::Tensor& mask) {
    at::Tensor h = up(norm(x)) + shift;
    h = torch::dropout(h.relu_(), 0.5, true).mul_(mask);
    const at::Tensor weights =
        torch::tensor({1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0}, h.options());
    if (h.sum().item<double>() > -1e9) {
      h = h * weights;
    }
    at::Tensor scale;
    {
      const torch::NoGradGuard no_grad;
      scale = h.abs().max() + 1;
    }
    h = Cube::apply(h / scale);
    const at::Tensor y =
        x + down(torch::cat({h.sin(), h.cos()}, 1).slice(1, 4, 12));
    return {y, h.exp()};
  }
};
TORCH_MODULE(OddBlock);

struct NetImpl : torch::nn::Module {
  torch::nn::Linear begin = register_module("begin", torch::nn::Linear(8, 8));
  torch::nn::ModuleList blocks =
      register_module("blocks", torch::nn::ModuleList());
  torch::nn::Linear end = register_module("end", torch::nn::Linear(8, 2));

  explicit NetImpl(int count = 3) {
    for (int i = 0; i < count; ++i) {
      blocks->push_back(OddBlock());
    }
    set_weights(*this);
  }

  at::Tensor forward(const at::Tensor& input) {
    at::Tensor x = begin(input);
    const at::Tensor mask = (x > -1).to(x.scalar_type());
    at::Tensor sum = torch::zeros({}, x.options());
    for (const auto& block : *blocks) {
      auto [y, more] = block->as<OddBlockImpl>()->forward(x, mask);
      x = y;
      sum = sum + more.mean();
    }
    return end(x).tanh() + sum;
  }
};
TORCH_MODULE(Net);

const std::vector<std::string> kBlocks = {R"(blocks\.\d+)"};

// The result, the gradients of input and parameters, and the buffers.
Tensors results_of(
    Net& net, const RecomputedModules* modules, int backwards = 1) {
  torch::manual_seed(7);
  const at::Tensor x = numbers({4, 8}, 5).requires_grad_();
  net->zero_grad();
  at::Tensor y;
  {
    std::optional<RecomputedModules::Scope> scope;
    if (modules != nullptr) {
      scope.emplace(*modules);
    }
    y = net(x);
  }
  torch::rand({3}); // backward finds another state of the generator
  for (int i = 0; i < backwards; ++i) {
    y.pow(2).sum().backward({}, /*retain_graph=*/i + 1 < backwards);
  }
  Tensors results{y.detach(), x.grad()};
  for (const at::Tensor& parameter : net->parameters()) {
    results.push_back(parameter.grad().clone());
  }
  for (const at::Tensor& buffer : net->buffers()) {
    results.push_back(buffer.clone());
  }
  results.push_back(torch::rand({3})); // and leaves it as it would have been
  return results;
}

TEST(RecomputedModules, GradientsAreEqualBitForBit) {
  const std::vector<std::vector<std::string>> all{
      kBlocks,
      {"blocks.1"},
      {"begin", R"(blocks\.[02])", "end"},
      {R"(blocks\.\d\.up)"},
      {".*"}};
  for (const auto& patterns : all) {
    Net plain;
    Net net;
    const RecomputedModules modules(*net, patterns);
    for (const int backwards : {1, 2}) {
      expect_equal(
          results_of(net, &modules, backwards),
          results_of(plain, nullptr, backwards));
    }
  }
}

// A model that calls another one, both with a scope.
TEST(RecomputedModules, ScopesNest) {
  const auto gradients = [](bool again) {
    torch::manual_seed(7);
    Net inner;
    Mlp outer;
    set_weights(*outer);
    const RecomputedModules blocks(*inner, kBlocks);
    const RecomputedModules layers(*outer, {"first", "third"});
    std::optional<RecomputedModules::Scope> outer_scope;
    std::optional<RecomputedModules::Scope> inner_scope;
    if (again) {
      outer_scope.emplace(layers);
    }
    const at::Tensor h = outer->first(numbers({4, 6}, 1)).tanh();
    if (again) {
      inner_scope.emplace(blocks);
    }
    const at::Tensor taught = inner(h.slice(1, 0, 8)).sin();
    inner_scope.reset();
    const at::Tensor y = outer->third(h * taught.sum()).sin();
    outer_scope.reset();
    y.sum().backward();
    Tensors all{inner->begin->weight.grad()};
    for (const auto* layer : {&outer->first, &outer->third}) {
      all.push_back((*layer)->weight.grad());
    }
    return all;
  };
  const Tensors expected = gradients(false);
  expect_equal(gradients(true), expected);
}

TEST(RecomputedModules, InputsMayBeInAFile) {
  Net plain;
  Net net;
  const RecomputedModules modules(
      *net, kBlocks, {.store = open_file_activation_store()});
  expect_equal(results_of(net, &modules), results_of(plain, nullptr));
}

TEST(RecomputedModules, UnderAutocast) {
  const auto gradients = [](bool again) {
    Mlp mlp;
    set_weights(*mlp);
    mlp->to(torch::kFloat);
    const RecomputedModules modules(*mlp, {"second", "third"});
    {
      const optim::AutoCast bfloat16;
      std::optional<RecomputedModules::Scope> scope;
      if (again) {
        scope.emplace(modules);
      }
      at::Tensor y = mlp(numbers({4, 6}, 1).to(torch::kFloat));
      scope.reset();
      y.to(torch::kFloat).pow(2).sum().backward();
    }
    Tensors all;
    for (const at::Tensor& each : mlp->parameters()) {
      all.push_back(each.grad());
    }
    return all;
  };
  expect_equal(gradients(true), gradients(false));
}

TEST(RecomputedModules, AreTheOutermostThatMatch) {
  Net net;
  EXPECT_THAT(
      RecomputedModules(*net, {R"(blocks\.[01].*)", "blocks.0.up"}).names(),
      ElementsAre("blocks.0", "blocks.1"));
  EXPECT_THAT(
      refusal([&] {
        RecomputedModules(*net, {"blocks.0", "block.1"});
      }),
      HasSubstr("no module with parameters matches \"block.1\""));
}

TEST(RecomputedModules, RefuseAModuleThatRecomputesItself) {
  struct Inner : torch::nn::Module {
    torch::nn::Linear one = register_module("one", torch::nn::Linear(4, 4));
    torch::nn::Linear two = register_module("two", torch::nn::Linear(4, 4));
    at::Tensor forward(const at::Tensor& x) {
      return recompute(
          [&](const at::Tensor& in) { return two(in).tanh(); }, one(x));
    }
  };
  struct Outer : torch::nn::Module {
    std::shared_ptr<Inner> inner =
        register_module("inner", std::make_shared<Inner>());
  };
  Outer outer;
  const RecomputedModules modules(outer, {"inner"});
  const auto scope = modules.scope();
  EXPECT_THAT(
      refusal([&] {
        outer.inner->forward(torch::ones({2, 4}));
      }),
      HasSubstr("inner calls recompute() itself"));
}

// Deep enough that what is kept shows.
struct DeepImpl : torch::nn::Module {
  torch::nn::ModuleList layers =
      register_module("layers", torch::nn::ModuleList());

  DeepImpl() {
    for (int i = 0; i < 8; ++i) {
      layers->push_back(torch::nn::Linear(64, 64));
    }
  }
  at::Tensor forward(at::Tensor x) {
    for (const auto& layer : *layers) {
      x = layer->as<torch::nn::LinearImpl>()
              ->forward(x)
              .tanh()
              .sin()
              .exp()
              .tanh();
    }
    return x;
  }
};
TORCH_MODULE(Deep);

TEST(RecomputedModules, KeepOneActivationInsteadOfThree) {
  Deep deep;
  constexpr double kActivation = 512 * 64 * 4;
  const auto peak = [&](const RecomputedModules* modules) {
    deep->zero_grad();
    const at::Tensor x = torch::ones({512, 64});
    TensorMemory memory;
    memory.reset_peak();
    const std::int64_t before = memory.current();
    at::Tensor y;
    {
      std::optional<RecomputedModules::Scope> scope;
      if (modules != nullptr) {
        scope.emplace(*modules);
      }
      y = deep(x);
    }
    y.sum().backward();
    return static_cast<double>(memory.peak() - before) / kActivation;
  };
  EXPECT_GE(peak(nullptr), 3 * 8);
  const RecomputedModules modules(*deep, {R"(layers\.\d)"});
  EXPECT_LE(peak(&modules), 8 + 8);
}

// Collectives in the middle of a module, with and without a gradient.
struct TalkingImpl : torch::nn::Module {
  torch::nn::Linear one = register_module("one", torch::nn::Linear(4, 4));
  torch::nn::Linear two = register_module("two", torch::nn::Linear(4, 4));

  at::Tensor forward(const at::Tensor& x) {
    at::Tensor h = one(x).tanh();
    at::Tensor mean = h.detach().mean(0);
    all_reduce(mean, ReduceOp::AVG);
    h = (h - mean).sin();
    return functional::mp_allreduce(two(h).exp(), get_group(0)).sin();
  }
};
TORCH_MODULE(Talking);

TEST(RecomputedModulesRanks, CollectivesRunOnce) {
  run_ranks(2, [](World& world) {
    struct Outer : torch::nn::Module {
      Talking talking = register_module("talking", Talking());
    };
    Outer outer;
    set_weights(outer);
    const auto gradients = [&](bool again) {
      outer.zero_grad();
      const RecomputedModules modules(outer, {"talking"});
      at::Tensor y;
      {
        std::optional<RecomputedModules::Scope> scope;
        if (again) {
          scope.emplace(modules);
        }
        y = outer.talking(numbers({3, 4}, world.rank()));
      }
      y.sum().backward();
      Tensors all;
      for (const at::Tensor& each : outer.parameters()) {
        all.push_back(each.grad().clone());
      }
      return all;
    };
    const Tensors expected = gradients(false);
    expect_equal(gradients(true), expected);
  });
}

// The parameters are spread, and gathered once more for the replay.
TEST(RecomputedModulesRanks, UnderSharding) {
  run_ranks(2, [](World& world) {
    const auto train = [&](const std::string& level, bool again) {
      Gpt gpt(GptOptions{.vocab = 11, .context = 8, .width = 16, .layers = 3});
      set_weights(*gpt);
      const RecomputedModules modules(*gpt, {R"(blocks\.\d+)"});
      torch::optim::SGD sgd(gpt->parameters(), 0.01);
      auto [sharded, optimizer, scaler] =
          sharding::group_sharded_parallel(gpt, sgd, level);
      std::vector<double> losses;
      for (int step = 0; step < 3; ++step) {
        optimizer.zero_grad();
        const at::Tensor tokens =
            (torch::arange(16).view({2, 8}) + world.rank() + step) % 11;
        at::Tensor y;
        {
          std::optional<RecomputedModules::Scope> scope;
          if (again) {
            scope.emplace(modules);
          }
          y = sharded.forward(tokens);
        }
        const at::Tensor loss = y.pow(2).mean();
        loss.backward();
        optimizer.step();
        losses.push_back(loss.template item<double>());
      }
      return losses;
    };
    for (const std::string level : {"os", "p_g_os"}) {
      EXPECT_EQ(train(level, true), train(level, false)) << level;
    }
  });
}

TEST(RecomputedModulesRanks, ModelsOfDTensors) {
  run_ranks(2, [](World&) {
    const ProcessMesh mesh = ProcessMesh::of_shape({2}, {"mp"});
    const ParallelizeConfig::Mp mp{
        {{R"(.*\.(qkv|up))", ColWiseParallel()},
         {R"(.*\.(out|down))", RowWiseParallel()}}};
    const auto gradients = [&](bool again) {
      Gpt gpt(GptOptions{.vocab = 11, .context = 8, .width = 16, .layers = 2});
      set_weights(*gpt);
      parallelize(*gpt, mesh, {.mp_config = mp});
      const RecomputedModules modules(*gpt, {R"(blocks\.\d+)"});
      at::Tensor y;
      {
        std::optional<RecomputedModules::Scope> scope;
        if (again) {
          scope.emplace(modules);
        }
        y = gpt(torch::arange(16).view({2, 8}) % 11);
      }
      y.pow(2).mean().backward();
      Tensors all;
      for (const at::Tensor& each : gpt->parameters()) {
        all.push_back(full_tensor(each.grad()));
      }
      return all;
    };
    const Tensors expected = gradients(false);
    expect_equal(gradients(true), expected);
  });
}

} // namespace
} // namespace argosy::testing
