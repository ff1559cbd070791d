#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace argosy::torch_hooks {

// Everything that Argosy changes in LibTorch, or in a library that LibTorch
// computes with, for the whole process. docs/torch-hooks.md says what each
// changes and when. Linking Argosy installs none of them.
enum class Hook : std::uint8_t {
  kAllocator,
  kAmx,
  kBatchNorm,
  kDeferredInit,
  kDTensor,
  kIntercept,
  kLayerHooks,
  kMalloc,
  kOpenblas,
  kSave,
  kSavedTensors,
  kTensorMeter,
};

// The name in ARGOSY_HOOKS_OFF: "dtensor".
std::string_view to_string(Hook hook);
std::vector<Hook> all_hooks();

// The names of the hooks that are installed now, sorted. Thread-safe.
std::vector<std::string> installed();

// Installs a hook, once per process: the first call runs `how`, which returns
// whether it could; later calls return what the first did. Returns false, too,
// when ARGOSY_HOOKS_OFF names the hook. If `how` throws, the next call tries
// again. Thread-safe. Throws InvalidArgument when ARGOSY_HOOKS_OFF names a hook
// that does not exist.
bool install(Hook hook, const std::function<bool()>& how);

// Whether ARGOSY_HOOKS_OFF names the hook. Throws as install() does.
bool is_switched_off(Hook hook);

// The same as install() for a hook that `feature` cannot work without: throws
// InvalidArgument when it is switched off.
void require(
    Hook hook, std::string_view feature, const std::function<void()>& how);

} // namespace argosy::torch_hooks
