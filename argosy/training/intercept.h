#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/DispatchKey.h>
#include <c10/util/FunctionRef.h>

namespace argosy {

// Ops with a tensor that has this key, and all ops of a thread that includes
// it, come to us above autograd and autocast. LibTorch keeps it for extensions
// that put off the making of modules; all uses of ours share it.
inline constexpr auto kInterceptKey = c10::DispatchKey::DeferredInit;

namespace tensor_parallel {

// Puts the thread's stream of random numbers where an op takes a generator and
// was given none.
void give_generator(
    const c10::FunctionSchema& schema, torch::jit::Stack& stack);

} // namespace tensor_parallel

namespace sharding {

// Runs an op with the keys, with the memory there that its tensors need.
void run_watched(
    const c10::OperatorHandle& op,
    c10::DispatchKeySet keys,
    torch::jit::Stack* stack);

} // namespace sharding

namespace pipeline {

// Calls `run`, which carries out an op on the stack, and writes the op down if
// the thread records a Program.
void run_recorded(
    const c10::OperatorHandle& op,
    torch::jit::Stack& stack,
    c10::function_ref<void()> run);

} // namespace pipeline

} // namespace argosy
