#pragma once

#include <ATen/core/ivalue.h>
#include <torch/csrc/autograd/custom_function.h>

#include <string>
#include <utility>

// AutogradContext keeps values of LibTorch's types only; these keep any other.
namespace argosy::torch_hooks {

template <typename T>
struct KeptValue : torch::CustomClassHolder {
  explicit KeptValue(T its_value) : value(std::move(its_value)) {}
  const T value;
};

template <typename T>
void keep_value(
    torch::autograd::AutogradContext& context,
    const std::string& name,
    T value) {
  context.saved_data[name] = c10::IValue::make_capsule(
      c10::make_intrusive<KeptValue<T>>(std::move(value)));
}

template <typename T>
T kept_value(
    torch::autograd::AutogradContext& context, const std::string& name) {
  const auto kept = context.saved_data[name].toCapsule();
  return static_cast<const KeptValue<T>&>(*kept).value;
}

} // namespace argosy::torch_hooks
