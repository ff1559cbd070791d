#include "argosy/training/intercept.h"

#include <torch/library.h>

namespace argosy {

namespace {

void run(
    const c10::OperatorHandle& op,
    c10::DispatchKeySet keys,
    torch::jit::Stack* stack) {
  tensor_parallel::give_generator(op.schema(), *stack);
  const c10::DispatchKeySet below = keys &
      c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kInterceptKey);
  // The ops that this one calls come here again.
  pipeline::run_recorded(
      op, *stack, [&] { sharding::run_watched(op, below, stack); });
}

} // namespace

TORCH_LIBRARY_IMPL(_, DeferredInit, fallback) {
  fallback.fallback(torch::CppFunction::makeFromBoxedFunction<&run>());
}

} // namespace argosy
