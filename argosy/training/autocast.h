#pragma once

#include <ATen/autocast_mode.h>

namespace argosy::training {

// Autocast of the calling thread.
struct Autocast {
  bool cpu = at::autocast::is_cpu_enabled();
  bool device = at::autocast::is_enabled();
  bool cache = at::autocast::is_autocast_cache_enabled();
  at::ScalarType cpu_dtype = at::autocast::get_autocast_cpu_dtype();
  at::ScalarType device_dtype = at::autocast::get_autocast_gpu_dtype();

  bool operator==(const Autocast&) const = default;

  void set() const {
    at::autocast::set_cpu_enabled(cpu);
    at::autocast::set_enabled(device);
    at::autocast::set_autocast_cache_enabled(cache);
    at::autocast::set_autocast_cpu_dtype(cpu_dtype);
    at::autocast::set_autocast_gpu_dtype(device_dtype);
  }
};

} // namespace argosy::training
