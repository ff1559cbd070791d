#pragma once

#include <memory>
#include <typeindex>
#include <utility>

namespace at {
class Tensor;
}

// Values attached to a tensor itself: copies of the handle have them, and so
// has the tensor after set_data() or Module::to(); clone() and detach() do not.
// Two threads must not tag one tensor at once.
namespace argosy::torch_hooks {

void* find_tag(const at::Tensor& tensor, std::type_index type);
void set_tag(
    const at::Tensor& tensor, std::type_index type, std::shared_ptr<void> tag);

// The value of that type; null when there is none.
template <typename T>
T* find_tag(const at::Tensor& tensor) {
  return static_cast<T*>(find_tag(tensor, typeid(T)));
}

// Replaces the value of that type. `tensor` must be a leaf.
template <typename T>
void set_tag(const at::Tensor& tensor, T value) {
  set_tag(tensor, typeid(T), std::make_shared<T>(std::move(value)));
}

// Lets hooks that are added to a leaf stay when users register others.
void keep_hooks_of_leaf(const at::Tensor& tensor);

} // namespace argosy::torch_hooks
