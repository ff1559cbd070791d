#pragma once

#include <ATen/autocast_mode.h>

#include <memory>

#include "argosy/torch_hooks/op_casts.h"

namespace argosy::torch_hooks {

// The autocast settings of the calling thread, as they were when this was made.
struct Autocast {
  bool cpu = at::autocast::is_cpu_enabled();
  bool device = at::autocast::is_enabled();
  bool cache = at::autocast::is_autocast_cache_enabled();
  at::ScalarType cpu_dtype = at::autocast::get_autocast_cpu_dtype();
  at::ScalarType device_dtype = at::autocast::get_autocast_gpu_dtype();
  std::shared_ptr<const OpCasts> ops = current_op_casts(); // null: none

  bool operator==(const Autocast&) const = default;

  // Makes them the calling thread's.
  void set() const;
};

// While it lives, these are the settings of the calling thread. Scopes of all
// kinds that catch ops of a thread must end in reverse order.
class AutocastScope {
 public:
  explicit AutocastScope(const Autocast& settings);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

  const Autocast& before() const { return before_; }

 private:
  const Autocast before_;
  const bool was_caught_;
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

// The settings of the calling thread, but with autocast off.
Autocast without_autocast();

// What autocast makes of an argument of a product on the CPU. `op` is its name
// in lists of ops.
at::Tensor cast_as_autocast(const at::Tensor& tensor, const char* op);

} // namespace argosy::torch_hooks
