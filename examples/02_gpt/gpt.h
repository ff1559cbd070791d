#pragma once

#include <torch/nn.h>

#include <cmath>
#include <limits>
#include <string>

// A GPT-2-style language model in plain LibTorch.

struct GptOptions {
  long vocab = 256;
  long context = 64; // maximum number of tokens that a prediction sees
  long width = 128;
  long layers = 4;
  long heads = 4;
};

// Causal attention, then a feed-forward layer; both have a residual connection.
struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(const GptOptions& options)
      : heads(options.heads),
        norm1(make_norm("norm1", options.width)),
        qkv(make_linear("qkv", options.width, 3 * options.width)),
        out(make_linear("out", options.width, options.width)),
        norm2(make_norm("norm2", options.width)),
        up(make_linear("up", options.width, 4 * options.width)),
        down(make_linear("down", 4 * options.width, options.width)) {}

  // x: [batch, length, width]; mask of future tokens: [length, length].
  at::Tensor forward(at::Tensor x, const at::Tensor& ahead) {
    x = x + out(attention(qkv(norm1(x)), ahead));
    return x + down(torch::gelu(up(norm2(x))));
  }

 private:
  at::Tensor attention(const at::Tensor& joined, const at::Tensor& ahead) {
    const long batch = joined.size(0);
    const long length = joined.size(1);
    const long size = joined.size(2) / 3 / heads;
    const auto parts = joined.view({batch, length, heads, 3, size})
                           .permute({3, 0, 2, 1, 4})
                           .unbind();
    const double scale = 1 / std::sqrt(static_cast<double>(size));
    const at::Tensor scores =
        torch::matmul(parts[0] * scale, parts[1].transpose(-2, -1))
            .masked_fill(ahead, -std::numeric_limits<float>::infinity());
    return torch::matmul(scores.softmax(-1), parts[2])
        .transpose(1, 2)
        .reshape({batch, length, heads * size});
  }

  torch::nn::Linear make_linear(const std::string& name, long from, long to) {
    return register_module(name, torch::nn::Linear(from, to));
  }
  torch::nn::LayerNorm make_norm(const std::string& name, long width) {
    return register_module(
        name, torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})));
  }

  long heads;
  torch::nn::LayerNorm norm1;
  torch::nn::Linear qkv;
  torch::nn::Linear out;
  torch::nn::LayerNorm norm2;
  torch::nn::Linear up;
  torch::nn::Linear down;
};
TORCH_MODULE(Block);

// Maps tokens [batch, length] to scores of the next token [batch, length,
// vocab].
struct GptImpl : torch::nn::Module {
  explicit GptImpl(const GptOptions& gpt_options) : options(gpt_options) {
    const long width = options.width;
    tokens =
        register_module("tokens", torch::nn::Embedding(options.vocab, width));
    places =
        register_module("places", torch::nn::Embedding(options.context, width));
    blocks = register_module("blocks", torch::nn::ModuleList());
    for (long i = 0; i < options.layers; ++i) {
      blocks->push_back(Block(options));
    }
    norm = register_module(
        "norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})));
    init_weights();
  }

  at::Tensor forward(const at::Tensor& text) {
    const long length = text.size(1);
    const at::Tensor ahead =
        torch::ones({length, length}, torch::kBool).triu(1);
    at::Tensor x = tokens(text) + places(torch::arange(length));
    for (const auto& block : *blocks) {
      x = block->as<BlockImpl>()->forward(x, ahead);
    }
    return torch::matmul(norm(x), tokens->weight.t());
  }

  const GptOptions options;

 private:
  void init_weights() {
    const torch::NoGradGuard no_grad;
    for (const auto& item : named_parameters()) {
      if (item.value().dim() > 1) {
        item.value().normal_(0, 0.02);
      } else if (item.key().ends_with("bias")) {
        item.value().zero_();
      }
    }
  }

  torch::nn::Embedding tokens = nullptr;
  torch::nn::Embedding places = nullptr;
  torch::nn::ModuleList blocks = nullptr;
  torch::nn::LayerNorm norm = nullptr;
};
TORCH_MODULE(Gpt);
