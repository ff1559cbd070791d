#pragma once

#include <torch/torch.h>

#include <functional>
#include <string>
#include <vector>

#include "argosy/pipeline/cut/program.h"
#include "argosy/pipeline/cut/split_point.h"
#include "argosy/torch_hooks/autocast.h"
#include "examples/02_gpt/gpt.h"

// Modules that know nothing of pipelines, each with something of its own that
// makes cutting hard.
namespace argosy::testing {

// Activations in place, and dropout.
struct DropNetImpl : torch::nn::Module {
  torch::nn::Linear first = register_module("first", torch::nn::Linear(6, 10));
  torch::nn::Dropout drop = register_module("drop", torch::nn::Dropout(0.5));
  torch::nn::Linear second =
      register_module("second", torch::nn::Linear(10, 10));
  torch::nn::Linear third = register_module("third", torch::nn::Linear(10, 3));

  at::Tensor forward(const at::Tensor& x) {
    at::Tensor y = first(x);
    y.relu_();
    y = second(drop(y));
    y.relu_();
    return third(y);
  }
};
TORCH_MODULE(DropNet);

// Statistics, and what goes around the layers.
struct ResidualImpl : torch::nn::Module {
  explicit ResidualImpl(long channels)
      : conv(register_module("conv", make_conv(channels))),
        norm(register_module("norm", torch::nn::BatchNorm2d(channels))),
        deeper(register_module("deeper", make_conv(channels))),
        deeper_norm(
            register_module("deeper_norm", torch::nn::BatchNorm2d(channels))) {}

  at::Tensor forward(const at::Tensor& x) {
    at::Tensor y = norm(conv(x));
    y.relu_();
    y = deeper_norm(deeper(y));
    y += x;
    return y.relu_();
  }

 private:
  static torch::nn::Conv2d make_conv(long channels) {
    return torch::nn::Conv2d(
        torch::nn::Conv2dOptions(channels, channels, 3).padding(1).bias(false));
  }

  torch::nn::Conv2d conv;
  torch::nn::BatchNorm2d norm;
  torch::nn::Conv2d deeper;
  torch::nn::BatchNorm2d deeper_norm;
};
TORCH_MODULE(Residual);

struct ResNetImpl : torch::nn::Module {
  torch::nn::Conv2d stem = register_module("stem", torch::nn::Conv2d(3, 8, 3));
  torch::nn::Sequential body = register_module(
      "body", torch::nn::Sequential(Residual(8), Residual(8), Residual(8)));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(8, 5));

  at::Tensor forward(const at::Tensor& images) {
    const at::Tensor x = stem(images);
    return head((body->forward(x) + x).mean({2, 3}));
  }
};
TORCH_MODULE(ResNet);

// Two inputs, the second of which is used late; two outputs.
struct EncoderDecoderImpl : torch::nn::Module {
  torch::nn::Embedding words =
      register_module("words", torch::nn::Embedding(11, 8));
  torch::nn::Linear encoder =
      register_module("encoder", torch::nn::Linear(8, 8));
  torch::nn::Linear query = register_module("query", torch::nn::Linear(8, 8));
  torch::nn::Linear decoder =
      register_module("decoder", torch::nn::Linear(8, 11));

  std::vector<at::Tensor> forward(
      const at::Tensor& source, const at::Tensor& target) {
    const at::Tensor memory = encoder(words(source)).tanh();
    const at::Tensor asked = query(words(target)).transpose(0, 1);
    const at::Tensor scores =
        torch::matmul(asked.transpose(0, 1), memory.transpose(1, 2));
    const at::Tensor weights = scores.softmax(-1);
    return {decoder(torch::matmul(weights, memory)), weights.argmax(-1)};
  }
};
TORCH_MODULE(EncoderDecoder);

// Autocast for a part of forward, and a part without gradients.
struct MixedImpl : torch::nn::Module {
  torch::nn::Linear first = register_module("first", torch::nn::Linear(8, 16));
  torch::nn::Linear second =
      register_module("second", torch::nn::Linear(16, 16));
  torch::nn::Linear third = register_module("third", torch::nn::Linear(16, 4));

  at::Tensor forward(const at::Tensor& x) {
    const torch_hooks::Autocast before;
    torch_hooks::Autocast low;
    low.cpu = true;
    low.cpu_dtype = torch::kBFloat16;
    low.set();
    at::Tensor y = second(first(x).relu());
    before.set();
    at::autocast::clear_cache();
    y = y.to(torch::kFloat);
    {
      const torch::NoGradGuard no_grad;
      y = y / y.abs().amax().clamp_min(1); // then only `third` learns
    }
    return third(y) + first(x).mean();
  }
};
TORCH_MODULE(Mixed);

struct CutCase {
  std::string name;
  std::shared_ptr<torch::nn::Module> module;
  pipeline::Forward forward;
  pipeline::Tensors inputs;
  SplitSpec points;
};

template <typename Holder>
pipeline::Forward forward_of(const Holder& module) {
  return [impl = module.ptr()](const pipeline::Tensors& in) {
    return pipeline::Tensors{impl->forward(in[0])};
  };
}

inline std::vector<CutCase> cut_cases() {
  torch::manual_seed(1);
  DropNet drop_net;
  Gpt gpt(GptOptions{
      .vocab = 13, .context = 8, .width = 16, .layers = 3, .heads = 4});
  ResNet res_net;
  EncoderDecoder encoder_decoder;
  Mixed mixed;
  const auto both = [impl =
                         encoder_decoder.ptr()](const pipeline::Tensors& in) {
    return impl->forward(in[0], in[1]);
  };
  return {
      {"drop_net",
       drop_net.ptr(),
       forward_of(drop_net),
       {torch::randn({4, 6}, torch::requires_grad())},
       {{"first", SplitPoint::END}, {"third", SplitPoint::BEGINNING}}},
      {"gpt",
       gpt.ptr(),
       forward_of(gpt),
       {torch::randint(13, {2, 8})},
       {{"blocks.0", SplitPoint::BEGINNING},
        {"blocks.0", SplitPoint::END},
        {"blocks.2", SplitPoint::END}}},
      {"res_net",
       res_net.ptr(),
       forward_of(res_net),
       {torch::randn({2, 3, 7, 7})},
       {{"body.0", SplitPoint::END}, {"body.2.deeper", SplitPoint::BEGINNING}}},
      {"encoder_decoder",
       encoder_decoder.ptr(),
       both,
       {torch::randint(11, {3, 5}), torch::randint(11, {3, 4})},
       {{"encoder", SplitPoint::END}, {"query", SplitPoint::END}}},
      {"mixed",
       mixed.ptr(),
       forward_of(mixed),
       {torch::randn({4, 8})},
       {{"first", SplitPoint::END}, {"third", SplitPoint::BEGINNING}}},
  };
}

} // namespace argosy::testing
