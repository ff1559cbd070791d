#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <ranges>
#include <tuple>
#include <type_traits>

namespace argosy::training {

template <typename T>
inline constexpr bool kIsOptional = false;
template <typename T>
inline constexpr bool kIsOptional<std::optional<T>> = true;
template <typename T>
inline constexpr bool kIsOptional<c10::optional<T>> = true;

template <typename T>
concept TupleLike = requires {
  std::tuple_size<T>::value;
};

// Calls visit(tensor) for every tensor in `value`, which may be a tensor, or
// ranges, tuples and optionals of tensors, nested to any depth.
template <typename T, typename Visit>
void for_each_tensor(T& value, const Visit& visit) {
  if constexpr (std::is_same_v<std::remove_const_t<T>, at::Tensor>) {
    visit(value);
  } else if constexpr (kIsOptional<std::remove_const_t<T>>) {
    if (value) {
      for_each_tensor(*value, visit);
    }
  } else if constexpr (std::ranges::range<T>) {
    for (auto&& each : value) {
      for_each_tensor(each, visit);
    }
  } else if constexpr (TupleLike<T>) {
    std::apply(
        [&](auto&... each) { (for_each_tensor(each, visit), ...); }, value);
  }
}

} // namespace argosy::training
