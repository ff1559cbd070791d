// Recurrent layers. LibTorch writes the gates into what it makes of the state:
// were that on all ranks, as zeros are, a batch that is cut would be gathered
// there. So the state is cut as the batch is.
//
// Weights that are cut are gathered once for all time steps. A cut of their
// rows is no cut of hidden units, since the rows of a gate are together, and
// every step needs all hidden units: ranks would gather in each step.

#include <ATen/core/Tensor.h>
#include <ATen/ops/gru_native.h>
#include <ATen/ops/lstm_native.h>
#include <ATen/ops/rnn_relu_native.h>
#include <ATen/ops/rnn_tanh_native.h>

#include <tuple>

#include "argosy/dtensor/ops/families.h"
#include "argosy/dtensor/tensor/convert.h"
#include "argosy/torch_hooks/wrapper_tensor.h"

namespace argosy::dtensor {

namespace {

// A state has layers, batch and hidden units.
at::Tensor cut_state(
    const at::Tensor& state, const at::Tensor& input, bool batch_first) {
  const bool is_plain = !is_dtensor(state);
  if (!is_dtensor(input) || input.dim() != 3 || state.dim() != 3 ||
      (is_plain && state.requires_grad())) {
    return state;
  }
  const Placements now = placements_of(input);
  Placements placed =
      is_plain ? Placements(now.size(), Replicate()) : placements_of(state);
  for (std::size_t axis = 0; axis < now.size(); ++axis) {
    if (now[axis].is_shard(batch_first ? 0 : 1) &&
        placed[axis].is_replicated()) {
      placed[axis] = Shard(1);
    }
  }
  return place(state, process_mesh_of(input), placed);
}

// The gradients of what this returns go back to the parts: where the batch is
// cut, by a reduce_scatter. A weight that is whole becomes a view: products of
// backward take it, too, and the hooks of the layer are not for those.
at::Tensor whole_weight(const at::Tensor& weight) {
  if (!is_dtensor(weight)) {
    return weight;
  }
  const at::Tensor whole =
      reshard(weight, replicated_on(process_mesh_of(weight)));
  return whole.is_same(weight) ? whole.view_as(whole) : whole;
}

std::vector<at::Tensor> whole_weights(at::TensorList weights) {
  std::vector<at::Tensor> whole;
  for (const at::Tensor& each : weights) {
    whole.push_back(whole_weight(each));
  }
  return whole;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm(
    const at::Tensor& input,
    at::TensorList state,
    at::TensorList weights,
    bool has_biases,
    std::int64_t num_layers,
    double dropout,
    bool train,
    bool bidirectional,
    bool batch_first) {
  std::vector<at::Tensor> cut;
  for (const at::Tensor& each : state) {
    cut.push_back(cut_state(each, input, batch_first));
  }
  return at::native::lstm(
      input,
      cut,
      whole_weights(weights),
      has_biases,
      num_layers,
      dropout,
      train,
      bidirectional,
      batch_first);
}

using OneState = std::tuple<at::Tensor, at::Tensor>(
    const at::Tensor&,
    const at::Tensor&,
    at::TensorList,
    bool,
    std::int64_t,
    double,
    bool,
    bool,
    bool);

template <OneState* layer>
std::tuple<at::Tensor, at::Tensor> with_cut_state(
    const at::Tensor& input,
    const at::Tensor& state,
    at::TensorList weights,
    bool has_biases,
    std::int64_t num_layers,
    double dropout,
    bool train,
    bool bidirectional,
    bool batch_first) {
  return layer(
      input,
      cut_state(state, input, batch_first),
      whole_weights(weights),
      has_biases,
      num_layers,
      dropout,
      train,
      bidirectional,
      batch_first);
}

} // namespace

void add_recurrent_kernels(torch_hooks::WrapperKernels& kernels) {
  for (torch::Library* library : {&kernels.below, &kernels.autograd}) {
    library->impl("lstm.input", &lstm);
    library->impl("gru.input", &with_cut_state<&at::native::gru>);
    library->impl("rnn_relu.input", &with_cut_state<&at::native::rnn_relu>);
    library->impl("rnn_tanh.input", &with_cut_state<&at::native::rnn_tanh>);
  }
}

} // namespace argosy::dtensor
