#include "argosy/sequence_parallel/reduce_gradients.h"

#include <torch/nn/module.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "argosy/comm/coalesce.h"
#include "argosy/common/error.h"
#include "argosy/common/log.h"
#include "argosy/mesh/hybrid_mesh.h"
#include "argosy/torch_hooks/backward.h"
#include "argosy/torch_hooks/grad_hook.h"
#include "argosy/training/parameter_marks.h"

namespace argosy {

namespace {

Tensors marked_parameters(const torch::nn::Module& model) {
  Tensors marked;
  for (const at::Tensor& parameter : model.parameters()) {
    if (parameter.requires_grad() &&
        is_sequence_parallel_parameter(parameter)) {
      marked.push_back(parameter);
    }
  }
  return marked;
}

void wait_for(std::vector<WorkPtr> works) {
  for (const WorkPtr& work : works) {
    work->wait();
  }
}

} // namespace

void mark_as_sequence_parallel_parameter(const at::Tensor& parameter) {
  ParameterMarks marks = marks_of(parameter);
  marks.sequence_parallel = true;
  set_marks(parameter, marks);
}

bool is_sequence_parallel_parameter(const at::Tensor& parameter) {
  return marks_of(parameter).sequence_parallel;
}

void reduce_sequence_parallel_gradients(
    const torch::nn::Module& model, const GroupPtr& group) {
  Tensors gradients;
  for (const at::Tensor& parameter : marked_parameters(model)) {
    if (parameter.grad().defined()) {
      gradients.push_back(parameter.grad());
    }
  }
  if (!gradients.empty()) {
    all_reduce_coalesced(
        gradients, ReduceOp::SUM, group_or_axis(group, "model"));
  }
}

struct SequenceParallelHooks::Impl {
  SequenceParallelHooksOptions options;
  Tensors parameters;
  std::vector<int> backwards; // passes since the last reduction, by parameter
  std::vector<torch_hooks::GradHook> hooks;
  bool ends = false; // this backward will call finish() or abandon()
  Tensors gradients; // that finish() reduces
  std::vector<WorkPtr> works;

  // Counts by parameter, because a backward need not reach all of them.
  void on_gradient(std::size_t index) {
    // The first gradient of a backward registers its end.
    if (!std::exchange(ends, true)) {
      torch_hooks::at_end_of_backward(
          [this] { finish(); }, [this] { abandon(); });
    }
    if (++backwards[index] < options.accumulation_steps) {
      return;
    }
    backwards[index] = 0;
    const at::Tensor& gradient = parameters[index].grad();
    if (options.fuse) {
      gradients.push_back(gradient);
    } else {
      works.push_back(
          all_reduce(gradient, ReduceOp::SUM, options.group, false));
    }
  }

  void finish() {
    ends = false;
    if (const Tensors waiting = std::exchange(gradients, {});
        !waiting.empty()) {
      all_reduce_coalesced(waiting, ReduceOp::SUM, options.group);
    }
    wait_for(std::exchange(works, {}));
  }

  // Backward has thrown: the step starts anew.
  void abandon() {
    ends = false;
    gradients.clear();
    std::ranges::fill(backwards, 0);
    try {
      wait_for(std::exchange(works, {}));
    } catch (const std::exception& error) {
      log::warn("[sequence_parallel] after a failed backward: ", error.what());
    }
  }
};

SequenceParallelHooks::SequenceParallelHooks(
    const torch::nn::Module& model, const SequenceParallelHooksOptions& options)
    : impl_(new Impl{options, marked_parameters(model)}) {
  ARGOSY_CHECK(
      options.accumulation_steps > 0,
      "[sequence_parallel] {} accumulation steps, expected one or more",
      options.accumulation_steps);
  impl_->options.group = group_or_axis(impl_->options.group, "model");
  Impl* const impl = impl_.get();
  impl->backwards.resize(impl->parameters.size());
  for (std::size_t i = 0; i < impl->parameters.size(); ++i) {
    impl->hooks.emplace_back(
        impl->parameters[i], [impl, i] { impl->on_gradient(i); });
  }
}

SequenceParallelHooks::~SequenceParallelHooks() = default;
SequenceParallelHooks::SequenceParallelHooks(SequenceParallelHooks&&) noexcept =
    default;

SequenceParallelHooks register_sequence_parallel_allreduce_hooks(
    const torch::nn::Module& model,
    int accumulation_steps,
    bool fuse,
    const GroupPtr& group) {
  return {
      model,
      {.accumulation_steps = accumulation_steps, .fuse = fuse, .group = group}};
}

} // namespace argosy
