#include "argosy/optim/autocast.h"

#include <utility>

#include "argosy/common/error.h"
#include "argosy/torch_hooks/amx.h"
#include "argosy/torch_hooks/autocast.h"

namespace argosy::optim {

namespace {

void check(bool enabled, c10::ScalarType dtype) {
  ARGOSY_CHECK(
      !enabled || dtype == c10::kBFloat16,
      "[optim.autocast] {}, expected BFloat16: LibTorch computes with no other "
      "16-bit type on the CPU",
      c10::toString(dtype));
}

} // namespace

AutoCast::AutoCast(bool enabled, c10::ScalarType dtype) {
  check(enabled, dtype);
  torch_hooks::Autocast autocast;
  enabled_before_ = std::exchange(autocast.cpu, enabled);
  dtype_before_ = autocast.cpu_dtype;
  if (enabled) {
    torch_hooks::require_working_amx();
    autocast.cpu_dtype = dtype;
  }
  autocast.set();
  torch_hooks::begin_casts();
}

AutoCast::~AutoCast() {
  torch_hooks::end_casts();
  torch_hooks::Autocast autocast;
  autocast.cpu = enabled_before_;
  autocast.cpu_dtype = dtype_before_;
  autocast.set();
}

} // namespace argosy::optim
