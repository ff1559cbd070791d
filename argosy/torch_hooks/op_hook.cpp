#include "argosy/torch_hooks/op_hook.h"

#include <torch/library.h>

#include <array>
#include <atomic>

#include "argosy/torch_hooks/hook.h"
#include "argosy/torch_hooks/keys.h"

namespace argosy::torch_hooks {

namespace {

Hook hook_of(OpHook hook) {
  switch (hook) {
    case OpHook::kLayer:
      return Hook::kLayerHooks;
    case OpHook::kFactory:
      return Hook::kDeferredInit;
    default:
      return Hook::kIntercept;
  }
}

// Indexed by OpHook and by InterceptOrder. Atomic because an op of one thread
// may read them while another thread installs a hook; they are never reset.
std::array<std::atomic<OpHandler>, 3> handlers{};
constexpr std::size_t kNumInterceptors =
    static_cast<std::size_t>(InterceptOrder::kCast) + 1;
std::array<std::atomic<Interceptor>, kNumInterceptors> interceptors{};

void run_interceptors(std::size_t from, CaughtOp& caught) {
  for (std::size_t i = from; i < interceptors.size(); ++i) {
    if (const Interceptor interceptor = interceptors[i]) {
      interceptor(caught, [&] { run_interceptors(i + 1, caught); });
      return;
    }
  }
  caught.run();
}

// LibTorch calls it for every op that meets the key. FULL_AFTER leaves the keys
// below ours, so that CaughtOp::run() goes on to autograd and not back here.
template <OpHook hook>
void catch_op(
    const c10::OperatorHandle& op,
    c10::DispatchKeySet keys,
    torch::jit::Stack* stack) {
  constexpr c10::DispatchKey key = key_of(hook);
  CaughtOp caught(
      op,
      keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, key),
      key,
      *stack);
  handlers[static_cast<std::size_t>(hook)].load()(caught);
}

// The dispatcher's registrations stay for the life of the process: tensors of
// static lifetime may need them until the end.
template <OpHook hook>
void add_fallback() {
  static auto* const library = new torch::Library(
      torch::Library::IMPL, "_", key_of(hook), __FILE__, __LINE__);
  library->fallback(
      torch::CppFunction::makeFromBoxedFunction<&catch_op<hook>>());
}

} // namespace

void CaughtOp::run_uncaught() {
  const c10::impl::ExcludeDispatchKeyGuard excluded(key_);
  // The exclusion is of the thread: it holds for the ops that this one calls.
  op_.callBoxed(stack_);
}

void install_op_hook(OpHook hook, const char* feature, OpHandler handler) {
  require(hook_of(hook), feature, [&] {
    // Before the fallback: from its registration on, ops of other threads may
    // arrive, and catch_op() calls the handler unchecked.
    handlers[static_cast<std::size_t>(hook)] = handler;
    switch (hook) {
      case OpHook::kIntercept:
        return add_fallback<OpHook::kIntercept>();
      case OpHook::kLayer:
        return add_fallback<OpHook::kLayer>();
      case OpHook::kFactory:
        return add_fallback<OpHook::kFactory>();
    }
  });
}

void install_interceptor(
    InterceptOrder order, const char* feature, Interceptor interceptor) {
  install_op_hook(OpHook::kIntercept, feature, [](CaughtOp& caught) {
    run_interceptors(0, caught);
  });
  interceptors[static_cast<std::size_t>(order)] = interceptor;
}

bool catch_ops_of_thread(OpHook hook, bool is_caught) {
  const c10::DispatchKey key = key_of(hook);
  const bool was_caught = c10::impl::tls_is_dispatch_key_included(key);
  c10::impl::tls_set_dispatch_key_included(key, is_caught);
  return was_caught;
}

UncaughtOps::UncaughtOps(OpHook hook) : excluded_(key_of(hook)) {}

bool is_marked(const at::Tensor& tensor, OpHook hook) {
  return tensor.defined() && tensor.key_set().has(key_of(hook));
}

void move_marked(
    const at::Tensor& tensor,
    OpHook hook,
    const c10::Storage& storage,
    std::int64_t begin) {
  // The dispatcher reads the key set of the impl. shallow_copy_from() puts this
  // one's storage and keys into the old impl, which all handles share.
  auto impl = c10::make_intrusive<c10::TensorImpl>(
      c10::Storage(storage),
      tensor.key_set().add(key_of(hook)),
      tensor.dtype());
  impl->set_sizes_and_strides(tensor.sizes(), tensor.strides());
  impl->set_storage_offset(begin);
  tensor.unsafeGetTensorImpl()->shallow_copy_from(impl);
}

} // namespace argosy::torch_hooks
