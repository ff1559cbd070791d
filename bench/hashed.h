#pragma once

#include <torch/torch.h>

#include <cmath>

// Weights and batches that the PyTorch side generates identically.
namespace argosy::bench {

// Pseudo-random numbers below 2^32, the same as in data_parallel.py.
inline at::Tensor hashed(at::IntArrayRef shape, long seed) {
  const long mask = 0xffffffff;
  at::Tensor x = torch::arange(c10::multiply_integers(shape));
  x = (x * 2654435761 + seed * 97531).bitwise_and(mask);
  x = x.bitwise_xor(x.div(1 << 15, "floor"));
  x = (x * 40503).bitwise_and(mask);
  x = x.bitwise_xor(x.div(1 << 13, "floor"));
  return x.view(shape);
}

// In [-1, 1).
inline at::Tensor uniform(at::IntArrayRef shape, long seed) {
  return (hashed(shape, seed).to(torch::kDouble) / 2147483648.0 - 1)
      .to(torch::kFloat);
}

// Between -bound and bound. Repeats a short series, because hashing 50 M
// weights would take seconds.
inline void set_weights(at::Tensor param, long seed, double bound) {
  const long period = 65521;
  const long count = param.numel();
  const at::Tensor series = uniform({period}, seed) * bound;
  param.copy_(
      series.repeat({count / period + 1}).slice(0, 0, count).view_as(param));
}

inline void set_weights(torch::nn::Module& module) {
  const torch::NoGradGuard no_grad;
  long seed = 0;
  for (const auto& item : module.named_parameters()) {
    at::Tensor param = item.value();
    ++seed;
    if (param.dim() > 1) {
      const double inputs = static_cast<double>(param[0].numel());
      set_weights(param, seed, 1 / std::sqrt(inputs));
    } else if (item.key().ends_with("bias")) {
      param.zero_();
    }
  }
}

} // namespace argosy::bench
