#pragma once

#include <c10/core/ScalarType.h>

namespace argosy::optim {

// Within its scope, this thread's matrix products, convolutions and the like
// compute in `dtype`, and what needs precision in float32: torch's autocast of
// the CPU. Weights stay as they are, and are cast once per outermost scope. Put
// forward and loss into it, not backward. Scopes nest; a disabled one within
// switches it off.
//
// LibTorch 1.13 multiplies bfloat16 on the CPU, but has no kernels of float16
// there ("addmm_impl_cpu_" not implemented for 'Half'): float16 throws
// InvalidArgument, as does any other type. Models whose weights are float16
// need a device for forward and backward; the optimizers here take them.
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
