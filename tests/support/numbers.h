#pragma once

#include <torch/types.h>

namespace argosy::testing {

// In [-1, 1), and looks random.
inline at::Tensor numbers(at::IntArrayRef shape, long seed) {
  const at::Tensor x = torch::arange(c10::multiply_integers(shape));
  const at::Tensor mixed = (x * 7919 + seed * 104729) * (x + 31) % 2003;
  return mixed.view(shape).to(torch::kDouble) / 1001.5 - 1;
}

} // namespace argosy::testing
