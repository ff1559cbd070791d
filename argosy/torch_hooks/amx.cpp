#include "argosy/torch_hooks/amx.h"

#include <dlfcn.h>

#include "argosy/common/environment.h"
#include "argosy/common/error.h"
#include "argosy/torch_hooks/hook.h"

namespace argosy::torch_hooks {

namespace {

// Declared as in oneDNN's headers, which LibTorch does not install.
struct Version {
  int major;
  int minor;
};
constexpr int kAvx512Bf16 = 0xe7;
constexpr int kAmxBits = 0x300;

template <typename Function>
Function* find(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_DEFAULT, name));
}

bool is_broken(const Version& version) {
  return version.major == 2 && version.minor <= 6;
}

// Whether it told oneDNN anything.
bool limit_to_avx512() {
  auto* const version = find<const Version*()>("dnnl_version");
  auto* const isa = find<int()>("dnnl_get_effective_cpu_isa");
  auto* const set_isa = find<int(int)>("dnnl_set_max_cpu_isa");
  if (version == nullptr || isa == nullptr || set_isa == nullptr ||
      !is_broken(*version())) {
    return false;
  }
  // oneDNN detects the machine once, so the limit must be set before its first
  // use.
  const Environment env = Environment::of_process();
  if (!env.has("ONEDNN_MAX_CPU_ISA") && !env.has("DNNL_MAX_CPU_ISA") &&
      set_isa(kAvx512Bf16) == 0) {
    return true;
  }
  ARGOSY_CHECK(
      (isa() & kAmxBits) == 0,
      "[optim.autocast] oneDNN {}.{} cannot multiply bfloat16 with AMX, which "
      "it has begun to use: set ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 in the "
      "environment",
      version()->major,
      version()->minor);
  return false;
}

} // namespace

void avoid_broken_amx() {
  install(Hook::kAmx, limit_to_avx512);
}

} // namespace argosy::torch_hooks
