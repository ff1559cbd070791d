#pragma once

#include <torch/torch.h>

#include <functional>
#include <string>
#include <vector>

#include "examples/02_gpt/gpt.h"
#include "tests/support/numbers.h"

// Small models, their weights and batches, all in float64 and the same on every
// rank, for tests that compare a training run with another.
namespace argosy::testing {

struct MlpImpl : torch::nn::Module {
  torch::nn::Linear first = register_module("first", torch::nn::Linear(6, 10));
  torch::nn::Linear second =
      register_module("second", torch::nn::Linear(10, 10));
  torch::nn::Linear third = register_module("third", torch::nn::Linear(10, 3));

  at::Tensor forward(const at::Tensor& x) {
    return third(second(first(x).tanh()).tanh());
  }
};
TORCH_MODULE(Mlp);

struct CnnImpl : torch::nn::Module {
  torch::nn::Conv2d conv = register_module("conv", torch::nn::Conv2d(1, 4, 3));
  torch::nn::BatchNorm2d norm =
      register_module("norm", torch::nn::BatchNorm2d(4));
  torch::nn::Conv2d deeper =
      register_module("deeper", torch::nn::Conv2d(4, 4, 3));
  torch::nn::BatchNorm2d deeper_norm =
      register_module("deeper_norm", torch::nn::BatchNorm2d(4));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(16, 3));

  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor features = norm(conv(x)).relu();
    return head(deeper_norm(deeper(features)).relu().flatten(1));
  }
};
TORCH_MODULE(Cnn);

// Those of norms are about 1.
inline void set_weights(torch::nn::Module& module) {
  const torch::NoGradGuard no_grad;
  module.to(torch::kDouble);
  long seed = 0;
  for (const auto& item : module.named_parameters()) {
    const double middle = item.key().find("norm") != std::string::npos;
    item.value().copy_(numbers(item.value().sizes(), ++seed) / 3 + middle);
  }
}

struct Batch {
  at::Tensor x;
  at::Tensor target;
};

inline Batch part_of(const Batch& whole, int rank, int size) {
  return {whole.x.chunk(size)[rank], whole.target.chunk(size)[rank]};
}

struct OracleModel {
  std::string name;
  std::function<torch::nn::AnyModule()> make;
  std::function<at::Tensor(long rows, long seed)> input;
  long classes = 3;
  long targets = 1; // of an input

  torch::nn::AnyModule make_with_weights() const {
    torch::nn::AnyModule net = make();
    set_weights(*net.ptr());
    return net;
  }

  Batch batch(long rows, long step) const {
    const at::Tensor target =
        ((numbers({rows, targets}, step + 50) + 1) * 5000).to(torch::kLong);
    return {input(rows, step), target.remainder(classes)};
  }
};

inline at::Tensor loss_of(const at::Tensor& scores, const at::Tensor& target) {
  return torch::nn::functional::cross_entropy(
      scores.flatten(0, scores.dim() - 2), target.flatten());
}

inline GptOptions small_gpt() {
  return {.vocab = 13, .context = 8, .width = 16, .layers = 2, .heads = 4};
}

inline std::vector<OracleModel> oracle_models() {
  const auto tokens = [](long rows, long seed) {
    return ((numbers({rows, 8}, seed) + 1) * 5000)
        .to(torch::kLong)
        .remainder(13);
  };
  return {
      {.name = "mlp",
       .make = [] { return torch::nn::AnyModule(Mlp()); },
       .input =
           [](long rows, long seed) {
             return numbers({rows, 6}, seed);
           }},
      {.name = "cnn",
       .make = [] { return torch::nn::AnyModule(Cnn()); },
       .input =
           [](long rows, long seed) {
             return numbers({rows, 1, 6, 6}, seed);
           }},
      {.name = "gpt",
       .make = [] { return torch::nn::AnyModule(Gpt(small_gpt())); },
       .input = tokens,
       .classes = 13,
       .targets = 8}};
}

} // namespace argosy::testing
