#include "argosy/tensor_parallel/multi_copy.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/module.h>

#include <utility>

#include "argosy/common/error.h"
#include "argosy/tensor_parallel/turns.h"
#include "argosy/torch_hooks/graph_node.h"

// Each part of the batch gets a graph of its own: leaves cut out of the inputs,
// the net, and an output. The caller's graph sees one node; its backward runs
// autograd::grad() on every part's graph, on the threads of the forward, and
// combines the gradients. So the collectives of backward overlap as those of
// forward do.
namespace argosy {

namespace {

struct Rows {
  std::int64_t begin = 0;
  std::int64_t count = 0;
};

// A part of the batch, with a graph of its own.
struct Copy {
  Rows rows;
  Tensors inputs; // leaves
  at::Tensor output;
  Tensors gradients; // of the inputs that need one, then of the parameters
};

using Copies = std::vector<Copy>;

std::vector<Rows> cut_rows(std::int64_t rows, int parts) {
  std::vector<Rows> cut;
  for (int i = 0; i < parts; ++i) {
    const std::int64_t begin = rows * i / parts;
    cut.push_back({begin, rows * (i + 1) / parts - begin});
  }
  return cut;
}

Tensors rows_of(const Tensors& inputs, const Rows& rows) {
  Tensors parts;
  for (const at::Tensor& input : inputs) {
    parts.push_back(input.detach()
                        .narrow(0, rows.begin, rows.count)
                        .requires_grad_(input.requires_grad()));
  }
  return parts;
}

void check_rows(const Tensors& inputs, int parts) {
  ARGOSY_CHECK(
      !inputs.empty(), "[tensor_parallel.multi_copy] there are no inputs");
  for (const at::Tensor& input : inputs) {
    ARGOSY_CHECK(
        input.dim() > 0 && input.size(0) == inputs[0].size(0) &&
            input.size(0) >= parts,
        "[tensor_parallel.multi_copy] an input is {}, expected as many rows as "
        "the first input {} and no fewer than {} parts",
        input.sizes(),
        inputs[0].sizes(),
        parts);
  }
}

double share(const Copies& copies, const Copy& copy) {
  const Rows& last = copies.back().rows;
  return static_cast<double>(copy.rows.count) /
      static_cast<double>(last.begin + last.count);
}

at::Tensor combined(const Copies& copies, CopyOutputs outputs) {
  Tensors all;
  for (const Copy& copy : copies) {
    const at::Tensor output = copy.output.detach();
    all.push_back(
        outputs == CopyOutputs::Mean ? output * share(copies, copy) : output);
  }
  if (outputs == CopyOutputs::Concatenate) {
    return at::cat(all);
  }
  at::Tensor sum = all[0].clone();
  for (std::size_t i = 1; i < all.size(); ++i) {
    sum += all[i];
  }
  return sum;
}

// The share of a copy in the gradient of the combined output.
at::Tensor own_gradient(
    const at::Tensor& gradient,
    const Copies& copies,
    std::size_t index,
    CopyOutputs outputs) {
  switch (outputs) {
    case CopyOutputs::Mean:
      return gradient * share(copies, copies[index]);
    case CopyOutputs::Concatenate: {
      std::int64_t begin = 0;
      for (std::size_t i = 0; i < index; ++i) {
        begin += copies[i].output.size(0);
      }
      return gradient.narrow(0, begin, copies[index].output.size(0));
    }
    default:
      return gradient;
  }
}

Tensors needing_gradient(const Tensors& tensors) {
  Tensors needing;
  for (const at::Tensor& tensor : tensors) {
    if (tensor.requires_grad()) {
      needing.push_back(tensor);
    }
  }
  return needing;
}

// Concatenates the gradients of an input by rows.
at::Tensor joined(const Copies& copies, std::size_t input, std::size_t place) {
  Tensors parts;
  for (const Copy& copy : copies) {
    const at::Tensor& gradient = copy.gradients[place];
    parts.push_back(
        gradient.defined() ? gradient : at::zeros_like(copy.inputs[input]));
  }
  return at::cat(parts);
}

// The first gradient may be shared with the graph or another part, so the sum
// is in place only from the second addition on.
at::Tensor added_up(const Copies& copies, std::size_t place) {
  at::Tensor sum;
  bool is_ours = false; // nobody else refers to the sum
  for (const Copy& copy : copies) {
    const at::Tensor& gradient = copy.gradients[place];
    if (!gradient.defined()) {
      continue;
    }
    if (!sum.defined()) {
      sum = gradient;
    } else if (is_ours) {
      sum += gradient;
    } else {
      sum = sum + gradient;
      is_ours = true;
    }
  }
  return sum;
}

} // namespace

struct MicroBatchInterleaved::Impl {
  Net net;
  MicroBatchInterleavedOptions options;
  Tensors parameters; // that need a gradient
  tensor_parallel::TurnThreads threads;

  Impl(
      Net its_net,
      const MicroBatchInterleavedOptions& its_options,
      Tensors its_parameters)
      : net(std::move(its_net)),
        options(its_options),
        parameters(std::move(its_parameters)),
        threads(options.interleave_num) {}

  Copies forward(const Tensors& inputs, bool with_graph) {
    const auto rows = cut_rows(inputs[0].size(0), options.interleave_num);
    Copies copies(rows.size());
    threads.run("forward of a part", [&](int index) {
      // The function runs inside of an autograd node, where grad mode is off.
      const at::AutoGradMode mode(with_graph);
      const auto i = static_cast<std::size_t>(index);
      copies[i].rows = rows[i];
      copies[i].inputs = rows_of(inputs, rows[i]);
      copies[i].output = net(copies[i].inputs);
    });
    return copies;
  }

  // Returns the gradients of all inputs, then of all parameters; undefined
  // where none is needed.
  Tensors backward(Copies& copies, const at::Tensor& gradient) {
    threads.run("backward of a part", [&](int index) {
      const auto i = static_cast<std::size_t>(index);
      Copy& copy = copies[i];
      Tensors leaves = needing_gradient(copy.inputs);
      leaves.insert(leaves.end(), parameters.begin(), parameters.end());
      copy.gradients = torch::autograd::grad(
          {copy.output},
          leaves,
          {own_gradient(gradient, copies, i, options.outputs)},
          /*retain_graph=*/false,
          /*create_graph=*/false,
          /*allow_unused=*/true);
    });
    Tensors gradients;
    std::size_t place = 0;
    for (std::size_t i = 0; i < copies[0].inputs.size(); ++i) {
      gradients.push_back(
          copies[0].inputs[i].requires_grad() ? joined(copies, i, place++)
                                              : at::Tensor());
    }
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      gradients.push_back(added_up(copies, place++));
    }
    return gradients;
  }
};

MicroBatchInterleaved::MicroBatchInterleaved(
    const torch::nn::Module& module,
    Net net,
    const MicroBatchInterleavedOptions& options) {
  ARGOSY_CHECK(
      options.interleave_num > 0,
      "[tensor_parallel.multi_copy] interleave_num {}, expected 1 or more",
      options.interleave_num);
  impl_ = std::make_shared<Impl>(
      std::move(net), options, needing_gradient(module.parameters()));
}

MicroBatchInterleaved::~MicroBatchInterleaved() = default;
MicroBatchInterleaved::MicroBatchInterleaved(MicroBatchInterleaved&&) noexcept =
    default;

at::Tensor MicroBatchInterleaved::operator()(const Tensors& inputs) {
  check_rows(inputs, impl_->options.interleave_num);
  Tensors sources = inputs;
  sources.insert(
      sources.end(), impl_->parameters.begin(), impl_->parameters.end());
  const bool with_graph = at::GradMode::is_enabled();
  auto copies = std::make_shared<Copies>();
  return torch_hooks::apply(
      sources,
      [&](const Tensors&) {
        *copies = impl_->forward(inputs, with_graph);
        return Tensors{combined(*copies, impl_->options.outputs)};
      },
      [copies, impl = impl_](const Tensors& gradients) {
        ARGOSY_CHECK(
            !at::GradMode::is_enabled(),
            "[tensor_parallel.multi_copy] has no second derivative");
        ARGOSY_CHECK(
            !copies->empty(),
            "[tensor_parallel.multi_copy] backward was called twice, expected "
            "once");
        // Frees the graphs of the parts when this backward ends, not when the
        // caller's graph dies.
        Copies once = std::exchange(*copies, {});
        return impl->backward(once, gradients[0]);
      })[0];
}

} // namespace argosy
