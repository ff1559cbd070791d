#pragma once

#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include <cstddef>
#include <new>
#include <string>
#include <type_traits>
#include <utility>

#include "argosy/torch_hooks/keys.h"
#include "argosy/torch_hooks/memoryless.h"

// Tensors that stand for something else, such as the parts of a DTensor.
//
// To LibTorch such a tensor is a plain TensorImpl of the key PrivateUse1, so
// that the dispatcher brings its ops to us, below autograd. It has no memory
// (memoryless.h); its storage owns what it stands for. As its members are those
// of the plain class, any existing tensor can become a wrapper for all who hold
// it: see become().
namespace argosy::torch_hooks {

// The deleter of a value that a storage owns. Its room is the storage's.
template <typename T>
void destroy_owned(void* value) {
  static_cast<T*>(value)->~T();
}

// A storage of so many bytes, without memory, that owns a value. The value
// lives as long as the storage, which all views and aliases of the tensor
// share. Every op that returns a DTensor makes one, so both are one block of
// memory.
template <typename T>
class OwningStorage final : public c10::StorageImpl {
 public:
  OwningStorage(std::size_t bytes, T&& value, c10::Device device)
      : StorageImpl(
            use_byte_size_t{},
            bytes,
            c10::DataPtr(nullptr, room_, &destroy_owned<T>, device),
            nullptr,
            false) {
    static_assert(std::is_nothrow_move_constructible_v<T>);
    new (room_) T(std::move(value));
  }
  // The base would destroy the value when its room is gone.
  ~OwningStorage() override { reset(); }

 private:
  alignas(T) std::byte room_[sizeof(T)];
};

template <typename T>
requires std::is_rvalue_reference_v<T&&> c10::Storage make_owning_storage(
    std::size_t bytes, T&& value, c10::Device device = c10::kCPU) {
  return c10::Storage(
      c10::make_intrusive<OwningStorage<T>>(bytes, std::move(value), device));
}

// The value of type T that the storage of a tensor owns, or null. Inline, as
// is_wrapper() below: every op on wrappers asks for each of its arguments.
template <typename T>
T* find_owned(const at::Tensor& tensor) {
  const c10::Storage& storage = storage_of(tensor);
  if (!storage) {
    return nullptr;
  }
  const at::DataPtr& data = storage.data_ptr();
  // The address of the deleter tells what type the context has.
  return data.get_deleter() == &destroy_owned<T>
      ? static_cast<T*>(data.get_context())
      : nullptr;
}

// The text of the error when someone asks a wrapper that owns a T for memory.
template <typename T, std::string (*why)(const T&, at::IntArrayRef sizes)>
void explain_no_memory() {
  explain_no_memory(
      &destroy_owned<T>, [](const void* value, at::IntArrayRef sizes) {
        return why(*static_cast<const T*>(value), sizes);
      });
}

// Where the elements of an owning storage are from now on; null for nowhere.
// Does not own the memory.
void set_memory(const c10::Storage& storage, void* data);

struct WrapperMeta {
  at::IntArrayRef sizes;
  at::IntArrayRef strides = {}; // of another length: contiguous
  std::int64_t offset = 0;
  caffe2::TypeMeta dtype;
  c10::Device device = c10::kCPU;
  bool is_layer = false; // marked for OpHook::kLayer
};

at::Tensor make_wrapper(c10::Storage storage, const WrapperMeta& meta);

template <typename T>
requires std::is_rvalue_reference_v<T&&> at::Tensor make_wrapper(
    T&& value, const WrapperMeta& meta) {
  return make_wrapper(
      make_owning_storage(0, std::move(value), meta.device), meta);
}

inline bool is_wrapper(const at::Tensor& tensor) {
  return tensor.defined() && tensor.key_set().has_backend(kWrapperBackend);
}

// Makes `tensor` what `other` is, whatever kinds they are, for all who hold it.
// `requires_grad` and the gradient stay.
void become(const at::Tensor& tensor, const at::Tensor& other);

// What a tensor is now, to become() it again later. No op runs.
at::Tensor alias_of(const at::Tensor& tensor);

// Where kernels of ops on wrappers are registered.
struct WrapperKernels {
  explicit WrapperKernels(torch::CppFunction (*make_execute)());

  // A kernel that does what ops without one of their own do.
  torch::CppFunction execute() const { return make_execute_(); }

  torch::Library below;    // of aten, below autograd
  torch::Library autograd; // of aten, in the place of LibTorch's autograd
  torch::Library ours;     // defines ops of the library "argosy"
  torch::Library ours_autograd;
  torch::Library ours_cpu; // on plain tensors

 private:
  torch::CppFunction (*const make_execute_)();
};

// Brings all ops that have a wrapper among their arguments to `execute`, below
// autograd, but those for which `add_kernels` registers others. Idempotent and
// thread-safe. Throws InvalidArgument when the hook is switched off.
void install_wrapper_ops(
    torch::CppFunction (*make_execute)(),
    void (*add_kernels)(WrapperKernels& kernels));

template <void (*execute)(const c10::OperatorHandle&, torch::jit::Stack*)>
void install_wrapper_ops(void (*add_kernels)(WrapperKernels& kernels)) {
  install_wrapper_ops(
      [] { return torch::CppFunction::makeFromBoxedFunction<execute>(); },
      add_kernels);
}

} // namespace argosy::torch_hooks
