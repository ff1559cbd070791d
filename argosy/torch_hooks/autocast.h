#pragma once

#include <ATen/autocast_mode.h>

namespace argosy::torch_hooks {

// The autocast settings of the calling thread, as they were when this was made.
struct Autocast {
  bool cpu = at::autocast::is_cpu_enabled();
  bool device = at::autocast::is_enabled();
  bool cache = at::autocast::is_autocast_cache_enabled();
  at::ScalarType cpu_dtype = at::autocast::get_autocast_cpu_dtype();
  at::ScalarType device_dtype = at::autocast::get_autocast_gpu_dtype();

  bool operator==(const Autocast&) const = default;

  // Makes them the calling thread's.
  void set() const {
    at::autocast::set_cpu_enabled(cpu);
    at::autocast::set_enabled(device);
    at::autocast::set_autocast_cache_enabled(cache);
    at::autocast::set_autocast_cpu_dtype(cpu_dtype);
    at::autocast::set_autocast_gpu_dtype(device_dtype);
  }
};

// Autocast keeps its casts of weights between these; nested ones share them.
// They end before an optimizer changes the weights.
inline void begin_casts() {
  at::autocast::increment_nesting();
}

inline void end_casts() {
  if (at::autocast::decrement_nesting() == 0) {
    at::autocast::clear_cache();
  }
}

// What autocast makes of an argument of a matrix product on the CPU.
inline at::Tensor cast_as_autocast(const at::Tensor& tensor) {
  return at::autocast::is_cpu_enabled()
      ? at::autocast::cached_cast(
            at::autocast::get_autocast_cpu_dtype(), tensor, at::kCPU)
      : tensor;
}

} // namespace argosy::torch_hooks
