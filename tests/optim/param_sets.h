#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

// Parameters for tests of optimizers, as those of a small network: odd sizes,
// one that several threads and pieces share, one that is not contiguous.

namespace argosy::optim {

using Tensors = std::vector<at::Tensor>;

inline Tensors make_params(c10::ScalarType type = torch::kFloat) {
  torch::manual_seed(11);
  Tensors params;
  const std::vector<std::vector<std::int64_t>> shapes = {
      {}, {1}, {3, 5}, {17}, {64}, {1000}, {33, 67}, {40001}, {0}};
  for (const auto& shape : shapes) {
    params.push_back(torch::randn(shape));
  }
  params.push_back(
      torch::randn({4, 3, 5, 5}).to(at::MemoryFormat::ChannelsLast));
  for (at::Tensor& param : params) {
    param = param.to(type).requires_grad_();
  }
  return params;
}

// The same for the same step: some are missing, and after the first step the
// last changes its order in memory.
inline void set_grads(const Tensors& params, int step, double scale = 1) {
  torch::manual_seed(1000 + step);
  for (std::size_t i = 0; i < params.size(); ++i) {
    const at::Tensor grad =
        (torch::randn(params[i].sizes()) * scale).to(params[i].scalar_type());
    const bool missing = (i + static_cast<std::size_t>(step)) % 4 == 3;
    params[i].mutable_grad() = missing ? at::Tensor() : grad;
  }
  if (step == 0 && params.back().grad().defined()) {
    params.back().mutable_grad() =
        params.back().grad().contiguous(at::MemoryFormat::ChannelsLast);
  }
}

} // namespace argosy::optim
