#include "argosy/torch_hooks/wrapper_tensor.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include "argosy/torch_hooks/hook.h"
#include "argosy/torch_hooks/keys.h"
#include "argosy/torch_hooks/memoryless.h"

namespace argosy::torch_hooks {

namespace {

using c10::DispatchKey;

torch::Library make_library(
    torch::Library::Kind kind,
    const char* name,
    c10::optional<DispatchKey> key = c10::nullopt) {
  return {kind, name, key, __FILE__, __LINE__};
}

// The dispatcher prefers such kernels to a fallback. They would make plain
// tensors, or take an op apart that we can run as one.
bool has_kernel_before_ours(const c10::OperatorHandle& op) {
  return op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd) ||
      op.hasKernelForDispatchKey(
          DispatchKey::CompositeExplicitAutogradNonFunctional);
}

// LibTorch runs ops on lists one tensor after the other on the CPU. So do we,
// by the same kernels, which call the ops of single tensors: each may be
// another wrapper, or a plain tensor.
void one_by_one(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  op.redispatchBoxed(c10::DispatchKeySet(DispatchKey::CPU), stack);
}

// A fallback alone is not enough, so each op that has such a kernel gets one of
// ours in front of it, once per process.
void override_kernels(WrapperKernels& kernels) {
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findSchema(name);
    if (op && name.name.starts_with("aten::_foreach_")) {
      kernels.below.impl(
          c10::toString(name).c_str(),
          torch::CppFunction::makeFromBoxedFunction<&one_by_one>());
    } else if (
        op && name.getNamespace() == c10::string_view("aten") &&
        has_kernel_before_ours(*op)) {
      kernels.below.impl(c10::toString(name).c_str(), kernels.execute());
    }
  }
}

} // namespace

void set_memory(const c10::Storage& storage, void* data) {
  c10::StorageImpl* impl = storage.unsafeGetStorageImpl();
  const c10::DeleterFnPtr deleter = impl->data_ptr().get_deleter();
  // Released first: replacing the pointer would otherwise delete the value.
  void* value = impl->data_ptr().release_context();
  impl->set_data_ptr_noswap(c10::DataPtr(data, value, deleter, c10::kCPU));
}

at::Tensor make_wrapper(c10::Storage storage, const WrapperMeta& meta) {
  // LibTorch gives this key to its own CPU tensors. Without it autocast would
  // not cast an op whose arguments are all wrappers.
  c10::DispatchKeySet keys =
      c10::DispatchKeySet(kWrapperKey).add(c10::DispatchKey::AutocastCPU);
  if (meta.is_layer) {
    keys = keys.add(key_of(OpHook::kLayer));
  }
  auto impl = make_memoryless(std::move(storage), keys, meta.dtype);
  if (meta.strides.size() == meta.sizes.size()) {
    impl->set_sizes_and_strides(meta.sizes, meta.strides, meta.offset);
  } else {
    impl->set_sizes_contiguous(meta.sizes);
  }
  return at::Tensor(std::move(impl));
}

void become(const at::Tensor& tensor, const at::Tensor& other) {
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  impl->shallow_copy_from(other.getIntrusivePtr());
  refuse_as(*impl, *other.unsafeGetTensorImpl());
}

at::Tensor alias_of(const at::Tensor& tensor) {
  return at::Tensor(tensor.unsafeGetTensorImpl()->shallow_copy_and_detach(
      /*version_counter=*/0, /*allow_tensor_metadata_change=*/true));
}

WrapperKernels::WrapperKernels(torch::CppFunction (*make_execute)())
    : below(make_library(torch::Library::IMPL, "aten", kWrapperKey)),
      autograd(make_library(torch::Library::IMPL, "aten", kWrapperAutogradKey)),
      ours(make_library(torch::Library::FRAGMENT, "argosy")),
      ours_autograd(
          make_library(torch::Library::IMPL, "argosy", kWrapperAutogradKey)),
      ours_cpu(make_library(torch::Library::IMPL, "argosy", DispatchKey::CPU)),
      make_execute_(make_execute) {}

void install_wrapper_ops(
    torch::CppFunction (*make_execute)(),
    void (*add_kernels)(WrapperKernels& kernels)) {
  require(Hook::kDTensor, "a DTensor", [&] {
    // Registrations stay for the life of the process.
    // Not freed, because tensors of static lifetime run ops until the very end.
    static auto* const fallback = new torch::Library(
        make_library(torch::Library::IMPL, "_", kWrapperKey));
    fallback->fallback(make_execute());
    static auto* const kernels = new WrapperKernels(make_execute);
    add_kernels(*kernels);
    override_kernels(*kernels);
  });
}

} // namespace argosy::torch_hooks
