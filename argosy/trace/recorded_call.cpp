#include "argosy/trace/recorded_call.h"

#include <ATen/core/Tensor.h>

#include <utility>

#include "argosy/torch_hooks/call_op.h"
#include "argosy/torch_hooks/graph_node.h"

namespace argosy::trace {

using torch_hooks::call_as_op;

std::vector<at::Tensor> recorded_call(
    const std::vector<at::Tensor>& inputs, const TensorsFn& fn) {
  return is_recording() ? call_as_op(inputs, fn) : fn(inputs);
}

std::vector<at::Tensor> recorded_apply(
    const std::vector<at::Tensor>& inputs,
    const TensorsFn& forward,
    TensorsFn backward) {
  if (!is_recording()) {
    return torch_hooks::apply(inputs, forward, std::move(backward));
  }
  return call_as_op(
      inputs,
      [forward,
       backward = std::move(backward)](const std::vector<at::Tensor>& in) {
        return torch_hooks::apply(in, forward, backward);
      });
}

at::Tensor recorded_apply(
    const at::Tensor& tensor,
    const TensorFn& forward,
    const TensorFn& backward) {
  if (!is_recording()) {
    return torch_hooks::apply(tensor, forward, backward);
  }
  const auto call = [forward, backward](const std::vector<at::Tensor>& in) {
    return std::vector{torch_hooks::apply(in[0], forward, backward)};
  };
  return call_as_op({tensor}, call)[0];
}

} // namespace argosy::trace
