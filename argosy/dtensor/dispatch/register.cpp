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
    if (op && name.getNamespace() == c10::string_view("aten") &&
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
