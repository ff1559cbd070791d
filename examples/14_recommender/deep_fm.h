#pragma once

#include <torch/torch.h>

constexpr int kDim = 4;

// The dense part: first-order terms, factorization machine and a small network
// on the same embeddings. Where rows come from is the caller's business.
struct DeepFmImpl : torch::nn::Module {
  DeepFmImpl(int num_numbers, int num_fields) {
    namespace nn = torch::nn;
    numbers = register_module("numbers", nn::Linear(num_numbers, 1));
    deep = register_module(
        "deep",
        nn::Sequential(
            nn::Linear(num_fields * kDim + num_numbers, 16),
            nn::ReLU(),
            nn::Linear(16, 1)));
  }

  torch::Tensor forward(
      const torch::Tensor& first,
      const torch::Tensor& rows,
      const torch::Tensor& values) {
    const auto pairs = (rows.sum(1).pow(2) - rows.pow(2).sum(1)).sum(1) * 0.5;
    const auto all = torch::cat({rows.flatten(1), values}, 1);
    return first.sum({1, 2}) + pairs + numbers(values).squeeze(1) +
        deep->forward(all).squeeze(1);
  }

  torch::nn::Linear numbers{nullptr};
  torch::nn::Sequential deep{nullptr};
};
TORCH_MODULE(DeepFm);
