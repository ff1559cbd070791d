#pragma once

#include <type_traits>
#include <utility>

#include "argosy/comm/ops.h"
#include "argosy/common/error.h"
#include "argosy/training/nested_tensors.h"

// Calls functions with a number of tensors known only at run time.
namespace argosy::pipeline {

inline constexpr std::size_t kMostArguments = 8;

namespace detail {

template <std::size_t>
using OneTensor = const at::Tensor&;

template <typename Fn, std::size_t... I>
constexpr bool takes(std::index_sequence<I...> /*places*/) {
  return std::is_invocable_v<Fn&, OneTensor<I>...>;
}

template <typename Result>
Tensors as_tensors(Result&& result) {
  Tensors tensors;
  training::for_each_tensor(
      result, [&](const at::Tensor& each) { tensors.push_back(each); });
  return tensors;
}

template <typename Fn, std::size_t... I>
Tensors call_with(
    Fn& fn, const Tensors& inputs, std::index_sequence<I...> /*places*/) {
  return as_tensors(fn(inputs[I]...));
}

// Calls `fn` if it takes N tensors and there are N; returns whether it did.
template <std::size_t N, typename Fn>
bool try_call(Fn& fn, const Tensors& inputs, Tensors& result) {
  if constexpr (takes<Fn>(std::make_index_sequence<N>())) {
    if (inputs.size() == N) {
      result = call_with(fn, inputs, std::make_index_sequence<N>());
      return true;
    }
  }
  return false;
}

template <typename Fn, std::size_t... N>
bool try_calls(
    Fn& fn,
    const Tensors& inputs,
    Tensors& result,
    std::index_sequence<N...> /*counts*/) {
  return (try_call<N + 1>(fn, inputs, result) || ...);
}

} // namespace detail

// Calls fn(inputs[0], inputs[1], ...) or fn(inputs), whichever compiles. The
// result may be a tensor or a range or tuple of tensors. Throws
// InvalidArgument, naming `what`, when `fn` takes another number of tensors.
template <typename Fn>
Tensors call_with_tensors(
    Fn&& fn, const Tensors& inputs, const std::string& what) {
  Tensors result;
  if (detail::try_calls(
          fn, inputs, result, std::make_index_sequence<kMostArguments>())) {
    return result;
  }
  if constexpr (std::is_invocable_v<Fn&, const Tensors&>) {
    return detail::as_tensors(fn(inputs));
  } else {
    throw InvalidArgument(str_format(
        "[pipeline] {} does not take {} tensors, which is what the layer "
        "before it returns",
        what,
        inputs.size()));
  }
}

} // namespace argosy::pipeline
