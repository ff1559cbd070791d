#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/FunctionRef.h>

#include <cstdint>

namespace argosy::torch_hooks {

// Places above autograd and autocast at which LibTorch brings ops to a function
// of ours. Each is a dispatch key that LibTorch leaves to extensions.
enum class OpHook : std::uint8_t {
  kIntercept, // the ops on marked tensors, and all ops of threads that ask
  kLayer,     // the ops on marked tensors: the weights of layers with hooks
  kFactory,   // all ops of threads that ask; those without tensors, too
};

// An op on its way to LibTorch.
class CaughtOp {
 public:
  CaughtOp(
      const c10::OperatorHandle& op,
      c10::DispatchKeySet below,
      c10::DispatchKey key,
      torch::jit::Stack& stack)
      : op_(op), below_(below), key_(key), stack_(stack) {}

  const c10::OperatorHandle& op() const { return op_; }
  const c10::FunctionSchema& schema() const { return op_.schema(); }
  // Ends with the arguments; after the op has run, with its results.
  torch::jit::Stack& stack() { return stack_; }
  c10::IValue* arguments() {
    return stack_.data() + (stack_.size() - schema().arguments().size());
  }
  c10::IValue* results() {
    return stack_.data() + (stack_.size() - schema().returns().size());
  }

  // The op does not go to the kernel of this key, which is below ours.
  void skip(c10::DispatchKey key) { below_ = below_.remove(key); }

  // Runs the op. The ops that it calls are caught again.
  void run() { op_.redispatchBoxed(below_, &stack_); }
  // Runs the op; the ops that it calls are not caught.
  void run_uncaught();

 private:
  const c10::OperatorHandle& op_;
  c10::DispatchKeySet below_;
  const c10::DispatchKey key_;
  torch::jit::Stack& stack_;
};

using OpHandler = void (*)(CaughtOp& caught);

// Brings ops to `handler` from now on; for kLayer and kFactory, which have one
// handler each. Idempotent and thread-safe. Throws InvalidArgument when the
// hook is switched off.
void install_op_hook(OpHook hook, const char* feature, OpHandler handler);

// The handlers of kIntercept share it: each calls `next`, which runs the next
// one and in the end the op. They run in this order.
enum class InterceptOrder : std::uint8_t {
  kTable,
  kReleased,
  kSegment,
  kGenerator,
  kRecorder,
  kMemory,
  kCast, // the last one
};
using Interceptor = void (*)(CaughtOp& caught, c10::function_ref<void()> next);

// The same for a handler of kIntercept.
void install_interceptor(
    InterceptOrder order, const char* feature, Interceptor interceptor);

// Whether the ops of the calling thread are caught from now on. Returns whether
// they were before, for who sets it back.
bool catch_ops_of_thread(OpHook hook, bool is_caught);

// While it lives, ops of the calling thread are not caught.
class UncaughtOps {
 public:
  explicit UncaughtOps(OpHook hook);

 private:
  const c10::impl::ExcludeDispatchKeyGuard excluded_;
};

bool is_marked(const at::Tensor& tensor, OpHook hook);

// Makes an existing tensor, for all who hold it, a marked one that lies in
// `storage` from element `begin` on, with the sizes and strides that it has.
void move_marked(
    const at::Tensor& tensor,
    OpHook hook,
    const c10::Storage& storage,
    std::int64_t begin);

} // namespace argosy::torch_hooks
