#pragma once

#include <functional>

namespace c10 {
struct Allocator;
}

namespace argosy::torch_hooks {

// Makes `allocator` the one that CPU tensors get their memory from, for good.
// Returns whether it is so: not where the program has set one of its own, nor
// where the hook is switched off. Thread-safe; `allocator` must live as long as
// the process.
bool install_allocator(c10::Allocator& allocator);

// Makes malloc keep what is freed instead of returning it to the system, for
// the memory that libraries which LibTorch calls (oneDNN) ask of malloc
// themselves. Does nothing where the hook is switched off.
void install_malloc_limits();

// Puts `meter` in front of the allocator of CPU tensors, for good, after
// set_inner() was given that one. Throws InvalidArgument where that cannot be,
// or where the hook is switched off.
void install_tensor_meter(
    c10::Allocator& meter,
    const std::function<void(c10::Allocator*)>& set_inner);

} // namespace argosy::torch_hooks
