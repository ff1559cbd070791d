#include "argosy/dtensor/dispatch/register.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <memory>
#include <mutex>

#include "argosy/dtensor/dispatch/execute.h"
#include "argosy/dtensor/ops/families.h"

namespace argosy::dtensor {

namespace {

using c10::DispatchKey;

torch::CppFunction our_kernel() {
  return torch::CppFunction::makeFromBoxedFunction<&execute>();
}

// The dispatcher prefers such kernels to a fallback. They would make plain
// tensors, or take an op apart that we can run as one.
bool has_kernel_before_ours(const c10::OperatorHandle& op) {
  return op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd) ||
      op.hasKernelForDispatchKey(
          DispatchKey::CompositeExplicitAutogradNonFunctional);
}

// LibTorch runs ops on lists one tensor after the other on the CPU. So do we,
// by the same kernels, which call the ops of single tensors: each keeps its own
// placement, and may be plain.
void one_by_one(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  op.redispatchBoxed(c10::DispatchKeySet(DispatchKey::CPU), stack);
}

bool is_foreach(const c10::OperatorName& name) {
  return name.name.starts_with("aten::_foreach_");
}

std::unique_ptr<torch::Library> override_kernels() {
  auto library = std::make_unique<torch::Library>(
      torch::Library::IMPL,
      "aten",
      c10::make_optional(DispatchKey::PrivateUse1),
      __FILE__,
      __LINE__);
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findSchema(name);
    if (op && is_foreach(name)) {
      library->impl(
          c10::toString(name).c_str(),
          torch::CppFunction::makeFromBoxedFunction<&one_by_one>());
    } else if (
        op && name.getNamespace() == c10::string_view("aten") &&
        has_kernel_before_ours(*op)) {
      library->impl(c10::toString(name).c_str(), our_kernel());
    }
  }
  return library;
}

} // namespace

void register_dispatch() {
  // Dispatcher's registrations live as long as the process.
  static const auto library = override_kernels();
  (void)library;
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, fallback) {
  fallback.fallback(our_kernel());
}

} // namespace argosy::dtensor
