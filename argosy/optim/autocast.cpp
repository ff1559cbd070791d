#include "argosy/optim/autocast.h"

#include <ATen/autocast_mode.h>

#include "argosy/common/error.h"
#include "argosy/optim/amx.h"

namespace argosy::optim {

namespace {

void check(bool enabled, c10::ScalarType dtype) {
  ARGOSY_CHECK(
      !enabled || dtype == c10::kBFloat16,
      "[optim.autocast] ",
      c10::toString(dtype),
      ", expected BFloat16: LibTorch computes with no other 16-bit type on "
      "the CPU");
}

} // namespace

AutoCast::AutoCast(bool enabled, c10::ScalarType dtype)
    : enabled_before_(at::autocast::is_cpu_enabled()),
      dtype_before_(at::autocast::get_autocast_cpu_dtype()) {
  check(enabled, dtype);
  if (enabled) {
    avoid_broken_amx();
    at::autocast::set_autocast_cpu_dtype(dtype);
  }
  at::autocast::set_cpu_enabled(enabled);
  at::autocast::increment_nesting();
}

AutoCast::~AutoCast() {
  if (at::autocast::decrement_nesting() == 0) {
    at::autocast::clear_cache();
  }
  at::autocast::set_cpu_enabled(enabled_before_);
  at::autocast::set_autocast_cpu_dtype(dtype_before_);
}

} // namespace argosy::optim
