#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace argosy::torch_hooks {
class GradHook;
}

namespace argosy::training {

// What gradients of a type of parameter add up in: with `main_grad` float32 for
// 16-bit ones.
c10::ScalarType grad_type(c10::ScalarType param, bool main_grad);

// While it lives, gradients of 16-bit parameters add up in float32, so that
// what several backward passes give is not lost to a few bits of mantissa:
// grad() is a float32 tensor after backward. Optimizers of argosy::optim, clips
// and GradScaler take it as it is. Sparse gradients stay as they are.
//
// For models that are not wrapped; DataParallelOptions and ShardingOptions have
// `main_grad`, which also reduces in float32.
class MainGrads {
 public:
  explicit MainGrads(const std::vector<at::Tensor>& params);
  ~MainGrads();
  MainGrads(const MainGrads&) = delete;
  MainGrads& operator=(const MainGrads&) = delete;

 private:
  std::vector<torch_hooks::GradHook> hooks_;
};

// The gradient of a 16-bit leaf, if it has a dense one, becomes float32.
// Backward adds to it in float32 from then on.
void widen_grad(const at::Tensor& leaf);

} // namespace argosy::training
