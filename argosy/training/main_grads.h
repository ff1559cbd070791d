#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace argosy::torch_hooks {
class GradHook;
}

namespace argosy::training {

// The type in which gradients of a parameter accumulate: float32 for 16-bit
// parameters if `main_grad` is set, else the parameter's own.
c10::ScalarType grad_type(c10::ScalarType param, bool main_grad);

// While it lives, gradients of 16-bit parameters accumulate in float32, so that
// sums over several backward passes do not lose precision. grad() is a float32
// tensor after backward; optimizers of argosy::optim, gradient clipping and
// GradScaler accept it. Sparse gradients keep their type.
//
// Use it for models that are not wrapped. DataParallelOptions and
// ShardingOptions have `main_grad`, which also reduces in float32.
class MainGrads {
 public:
  explicit MainGrads(const std::vector<at::Tensor>& params);
  ~MainGrads();
  MainGrads(const MainGrads&) = delete;
  MainGrads& operator=(const MainGrads&) = delete;

 private:
  std::vector<torch_hooks::GradHook> hooks_;
};

// Converts the dense gradient of a 16-bit leaf to float32. Later backward
// passes add to it in float32.
void widen_grad(const at::Tensor& leaf);

} // namespace argosy::training
