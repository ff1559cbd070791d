#pragma once

#include <c10/core/DispatchKeySet.h>

#include "argosy/torch_hooks/op_hook.h"

// The dispatch keys that are ours. All of them are above autograd but the last.
namespace argosy::torch_hooks {

constexpr c10::DispatchKey key_of(OpHook hook) {
  switch (hook) {
    case OpHook::kIntercept:
      return c10::DispatchKey::DeferredInit;
    case OpHook::kLayer:
      return c10::DispatchKey::TESTING_ONLY_GenericWrapper;
    case OpHook::kFactory:
      return c10::DispatchKey::TESTING_ONLY_GenericMode;
  }
  return c10::DispatchKey::Undefined;
}

// That of tensors that stand for others, below autograd. The dispatcher adds
// AutogradPrivateUse1 by itself.
inline constexpr auto kWrapperKey = c10::DispatchKey::PrivateUse1;
inline constexpr auto kWrapperAutogradKey =
    c10::DispatchKey::AutogradPrivateUse1;
inline constexpr auto kWrapperBackend = c10::BackendComponent::PrivateUse1Bit;

} // namespace argosy::torch_hooks
