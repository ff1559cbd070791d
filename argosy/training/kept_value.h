#pragma once

#include <ATen/core/ivalue.h>
#include <torch/csrc/autograd/custom_function.h>

#include <string>
#include <utility>

// Any value in AutogradContext, which keeps only what LibTorch knows. Not
// installed.
namespace argosy::training {

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

} // namespace argosy::training
