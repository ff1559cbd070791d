#include "argosy/torch_hooks/amx.h"

#include <dlfcn.h>

#include <optional>

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

// What the process has of oneDNN.
struct OneDnn {
  const Version* (*version)();
  int (*isa)();
  int (*set_max_isa)(int isa);
};

std::optional<OneDnn> broken_onednn() {
  const OneDnn onednn{
      find<const Version*()>("dnnl_version"),
      find<int()>("dnnl_get_effective_cpu_isa"),
      find<int(int)>("dnnl_set_max_cpu_isa")};
  if (onednn.version == nullptr || onednn.isa == nullptr ||
      onednn.set_max_isa == nullptr) {
    return std::nullopt;
  }
  const Version& version = *onednn.version();
  return version.major == 2 && version.minor <= 6 ? std::optional(onednn)
                                                  : std::nullopt;
}

// Whether it told oneDNN anything. oneDNN reads the limit once, when it first
// computes, and refuses a later one.
bool limit_to_avx512() {
  const auto onednn = broken_onednn();
  const Environment env = Environment::of_process();
  return onednn && !env.has("ONEDNN_MAX_CPU_ISA") &&
      !env.has("DNNL_MAX_CPU_ISA") && onednn->set_max_isa(kAvx512Bf16) == 0;
}

} // namespace

bool install_amx_limit() {
  return install(Hook::kAmx, limit_to_avx512);
}

void require_working_amx() {
  if (install_amx_limit() || is_switched_off(Hook::kAmx)) {
    return;
  }
  const auto onednn = broken_onednn();
  ARGOSY_CHECK(
      !onednn || (onednn->isa() & kAmxBits) == 0,
      "[optim.autocast] oneDNN {}.{} cannot multiply bfloat16 with AMX, which "
      "it has begun to use: call init_parallel_env() before the first "
      "convolution or product, or set ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 in "
      "the environment",
      onednn->version()->major,
      onednn->version()->minor);
}

} // namespace argosy::torch_hooks
