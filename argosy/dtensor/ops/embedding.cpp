// Look-up of rows. Where rows are cut, a rank gives those that it has and zeros
// for the others: Partial. The gradient of the weight is cut as the weight is.

#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/embedding_dense_backward.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include "argosy/common/error.h"
#include "argosy/dtensor/ops/axes.h"
#include "argosy/dtensor/ops/families.h"
#include "argosy/dtensor/tensor/decision_cache.h"
#include "argosy/dtensor/tensor/mesh_state.h"
#include "argosy/dtensor/tensor/plain_gradient.h"
#include "argosy/torch_hooks/wrapper_tensor.h"

namespace argosy::dtensor {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

Strategy with(
    const OpCall& call, Placement first, Placement second, Placement output) {
  Strategy strategy = call.strategy(first, output);
  strategy.inputs[1] = second;
  return strategy;
}

// weight (rows, columns), indices of any shape.
std::vector<Strategy> embedding(const OpCall& call) {
  const auto ndim = static_cast<int>(call.shape(1).size());
  std::vector<Strategy> strategies{
      with(call, Shard(0), Replicate(), Partial()),
      with(call, Shard(1), Replicate(), Shard(ndim))};
  for (int dim = 0; dim < ndim; ++dim) {
    strategies.push_back(with(call, Replicate(), Shard(dim), Shard(dim)));
  }
  return strategies;
}

std::vector<Shape> embedding_shape(const OpCall& call) {
  Shape shape = call.shape(1);
  shape.push_back(call.shape(0).back());
  return {shape};
}

// grad (..., columns), indices (...), and perhaps the weight, which says where
// its gradient should be and is not read.
std::vector<Strategy> embedding_grad(const OpCall& call) {
  const auto ndim = static_cast<int>(call.shape(1).size());
  const bool has_weight = call.num_inputs() > 2;
  const Placement weight = has_weight ? call.current(2) : Replicate();
  std::vector<Strategy> strategies{
      with(call, Shard(ndim), Replicate(), Shard(1))};
  if (weight.is_shard(0)) {
    strategies.push_back(with(call, Replicate(), Replicate(), Shard(0)));
  } else if (!weight.is_shard(1)) {
    strategies.push_back(with(call, Replicate(), Replicate(), Replicate()));
  }
  // How often an index is there is known from all of them only.
  const bool adds_up = !call.flag("scale_grad_by_freq", false);
  for (int dim = 0; dim < ndim && adds_up; ++dim) {
    strategies.push_back(with(call, Shard(dim), Shard(dim), Partial()));
  }
  for (Strategy& strategy : strategies) {
    if (has_weight) {
      strategy.inputs[2] = weight;
    }
  }
  return strategies;
}

std::vector<Shape> embedding_grad_shape(const OpCall& call) {
  if (call.num_inputs() > 2) {
    return {call.shape(2)};
  }
  return {{call.integer("num_weights", 0), call.shape(0).back()}};
}

// Where rows are cut, an index out of bounds would belong to no rank and
// silently give zeros.
void check_indices(const at::Tensor& indices, std::int64_t rows) {
  const at::Tensor outside = (indices < 0).logical_or_(indices >= rows);
  ARGOSY_CHECK(
      !outside.any().item<bool>(),
      "[dtensor.embedding] an index is out of bounds, expected rows from 0 to ",
      rows - 1);
}

// Rows of the whole that this rank has.
struct LocalRows {
  std::int64_t first;
  std::int64_t count;

  at::Tensor is_other(const at::Tensor& indices) const {
    return (indices < first).logical_or_(indices >= first + count);
  }
};

void run_embedding(LocalCall& call) {
  if (axes_that_cut(call, "weight", 0).empty()) {
    call.run();
    return;
  }
  const at::Tensor weight = call.argument("weight").toTensor();
  const at::Tensor indices = call.argument("indices").toTensor();
  check_indices(indices, call.original("weight").toTensor().size(0));
  const LocalRows rows{offset_of(call, "weight", 0), weight.size(0)};
  // There is no row 0 that the indices of others could stand for.
  if (rows.count == 0) {
    Shape shape = indices.sizes().vec();
    shape.push_back(weight.size(1));
    call.finish(at::zeros(shape, weight.options()));
    return;
  }
  const at::Tensor is_other = rows.is_other(indices);
  const at::Tensor places = (indices - rows.first).masked_fill_(is_other, 0);
  call.finish(
      at::embedding(weight, places).masked_fill_(is_other.unsqueeze(-1), 0));
}

// Indices of other ranks' rows, and the padding, go to a row that is left out.
void run_weight_grad(LocalCall& call) {
  const at::Tensor grad = call.argument(0).toTensor();
  const at::Tensor indices = call.argument(1).toTensor();
  const std::int64_t padding = call.argument("padding_idx").toInt();
  const bool by_frequency = call.argument("scale_grad_by_freq").toBool();
  const Decision::Output& output = call.decision().outputs[0];
  const Shape& whole = output.tensors[0].shape;
  const Box box = call.mesh().local_box(whole, output.placements);
  const LocalRows rows{box.offset[0], box.size[0]};
  // All rows are here, so the indices are those of the op itself.
  if (rows.count == whole[0]) {
    call.finish(at::embedding_dense_backward(
        grad, indices, rows.count, padding, by_frequency));
    return;
  }
  const at::Tensor is_out =
      rows.is_other(indices).logical_or_(indices == padding);
  const at::Tensor places =
      (indices - rows.first).masked_fill_(is_out, rows.count);
  // The extra row is the padding of this call, so that nothing is added to it.
  const at::Tensor sums = at::embedding_dense_backward(
      grad, places, rows.count + 1, rows.count, by_frequency);
  call.finish(sums.narrow(0, 0, rows.count));
}

at::Tensor weight_grad_of(
    const at::Tensor& grad,
    const at::Tensor& indices,
    const at::Tensor& weight,
    std::int64_t padding,
    bool by_frequency) {
  static const auto op =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("argosy::embedding_weight_grad", "")
          .typed<at::Tensor(
              const at::Tensor&,
              const at::Tensor&,
              const at::Tensor&,
              std::int64_t,
              bool)>();
  return op.call(grad, indices, weight, padding, by_frequency);
}

// As LibTorch's, with a gradient that knows where the weight is.
struct Embedding : Function<Embedding> {
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& weight,
      const at::Tensor& indices,
      std::int64_t padding,
      bool by_frequency) {
    context->save_for_backward({indices, weight});
    context->saved_data["padding"] = padding;
    context->saved_data["by_frequency"] = by_frequency;
    const at::AutoDispatchBelowADInplaceOrView below;
    return at::embedding(weight, indices, padding, by_frequency);
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const auto saved = context->get_saved_variables();
    const at::Tensor grad = weight_grad_of(
        grads[0],
        saved[0],
        saved[1].detach(),
        context->saved_data["padding"].toInt(),
        context->saved_data["by_frequency"].toBool());
    return {grad, {}, {}, {}};
  }
};

// The gradient is linear in `grad`, so its own derivative is a look-up again.
struct EmbeddingGrad : Function<EmbeddingGrad> {
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& grad,
      const at::Tensor& indices,
      const at::Tensor& weight,
      std::int64_t padding,
      bool by_frequency) {
    ARGOSY_CHECK(
        !by_frequency || !grad.requires_grad(),
        "[dtensor.embedding] the second derivative of gradients that are "
        "scaled by frequency is not known");
    context->save_for_backward({indices});
    context->saved_data["padding"] = padding;
    const at::AutoDispatchBelowADInplaceOrView below;
    return weight_grad_of(grad, indices, weight, padding, by_frequency);
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const at::Tensor indices = context->get_saved_variables()[0];
    const at::Tensor is_padding =
        indices == context->saved_data["padding"].toInt();
    const at::Tensor grad = at::embedding(grads[0], indices)
                                .masked_fill(is_padding.unsqueeze(-1), 0);
    return {grad, {}, {}, {}, {}};
  }
};

at::Tensor recorded_embedding(
    const at::Tensor& weight,
    const at::Tensor& indices,
    std::int64_t padding,
    bool by_frequency,
    bool sparse) {
  ARGOSY_CHECK(
      !sparse,
      "[dtensor.embedding] sparse gradients are not possible on DTensors, "
      "whose "
      "parts have sizes that all ranks know; make the embedding without "
      "`sparse`, or keep a table of which batches use few rows on servers "
      "(ps::SparseEmbedding)");
  record_plain(weight);
  return Embedding::apply(weight, indices, padding, by_frequency);
}

at::Tensor recorded_embedding_grad(
    const at::Tensor& grad,
    const at::Tensor& indices,
    const at::Tensor& weight,
    std::int64_t padding,
    bool by_frequency) {
  return EmbeddingGrad::apply(grad, indices, weight, padding, by_frequency);
}

} // namespace

void add_embedding_rules(RuleTable& table) {
  table.add(
      "embedding",
      {.strategies = embedding,
       .shapes = embedding_shape,
       .run = run_embedding});
  const Rule grad{
      .strategies = embedding_grad,
      .shapes = embedding_grad_shape,
      .run = run_weight_grad};
  table.add("embedding_dense_backward", grad);
  table.add_qualified("argosy::embedding_weight_grad", grad);
}

void add_embedding_kernels(torch_hooks::WrapperKernels& kernels) {
  kernels.ours.def(
      "embedding_weight_grad(Tensor grad, Tensor indices, Tensor weight, int "
      "padding_idx, bool scale_grad_by_freq) -> Tensor");
  kernels.ours_autograd.impl("embedding_weight_grad", &recorded_embedding_grad);
  kernels.autograd.impl("embedding", &recorded_embedding);
}

} // namespace argosy::dtensor
