#include "argosy/torch_hooks/autocast.h"

#include "argosy/torch_hooks/keys.h"
#include "argosy/torch_hooks/op_hook.h"

namespace argosy::torch_hooks {

void Autocast::set() const {
  at::autocast::set_cpu_enabled(cpu);
  at::autocast::set_enabled(device);
  at::autocast::set_autocast_cache_enabled(cache);
  at::autocast::set_autocast_cpu_dtype(cpu_dtype);
  at::autocast::set_autocast_gpu_dtype(device_dtype);
  set_op_casts(ops);
}

AutocastScope::AutocastScope(const Autocast& settings)
    : was_caught_(
          c10::impl::tls_is_dispatch_key_included(key_of(OpHook::kIntercept))) {
  settings.set();
}

AutocastScope::~AutocastScope() {
  before_.set();
  catch_ops_of_thread(OpHook::kIntercept, was_caught_);
}

Autocast without_autocast() {
  Autocast settings;
  settings.cpu = false;
  settings.device = false;
  settings.ops = nullptr;
  return settings;
}

at::Tensor cast_as_autocast(const at::Tensor& tensor, const char* op) {
  if (!at::autocast::is_cpu_enabled()) {
    return tensor;
  }
  const auto& ops = current_op_casts();
  const bool is_full = ops != nullptr && ops->of(op) == OpCasts::To::kFloat;
  return at::autocast::cached_cast(
      is_full ? at::kFloat : at::autocast::get_autocast_cpu_dtype(),
      tensor,
      at::kCPU);
}

} // namespace argosy::torch_hooks
