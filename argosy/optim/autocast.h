#pragma once

#include <c10/core/ScalarType.h>

namespace argosy::optim {

// Switches on torch's CPU autocast for this thread while it lives: matrix
// products and convolutions compute in `dtype`, ops that need precision in
// float32. Weights keep their type; they are cast once in each outermost scope.
// Run forward and the loss inside, and backward outside. Scopes nest; a
// disabled inner scope switches autocast off.
//
// Throws InvalidArgument unless `dtype` is bfloat16: LibTorch 1.13 has no
// float16 matrix products on the CPU ("addmm_impl_cpu_" not implemented for
// 'Half').
class AutoCast {
 public:
  explicit AutoCast(
      bool enabled = true, c10::ScalarType dtype = c10::kBFloat16);
  ~AutoCast();
  AutoCast(const AutoCast&) = delete;
  AutoCast& operator=(const AutoCast&) = delete;

 private:
  bool enabled_before_;
  c10::ScalarType dtype_before_;
};

} // namespace argosy::optim
