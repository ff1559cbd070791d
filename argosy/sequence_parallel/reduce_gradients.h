#pragma once

#include <memory>

#include "argosy/comm/ops.h"

namespace torch::nn {
class Module;
}

// Gradients of parameters that all ranks of the tensor parallel group hold, but
// that see only a slice of the tokens on each rank: normalizations, and the
// biases of RowSequenceParallelLinear.
namespace argosy {

void mark_as_sequence_parallel_parameter(const at::Tensor& parameter);
bool is_sequence_parallel_parameter(const at::Tensor& parameter);

// Sums the gradients of the marked parameters over the group, in one all_reduce
// for each type. All ranks of the group must call it alike, after backward;
// blocks. `group` null: the group of the model axis, or all ranks.
void reduce_sequence_parallel_gradients(
    const torch::nn::Module& model, const GroupPtr& group = nullptr);

struct SequenceParallelHooksOptions {
  int accumulation_steps = 1; // backward passes before a reduction
  bool fuse = false; // one all_reduce at the end, instead of one per gradient
  GroupPtr group;
};

// While it lives, every accumulation_steps-th backward sums these gradients. If
// a backward throws on all ranks, call zero_grad() and repeat the whole step.
// Do not combine it with DataParallel, which replaces gradients at the end of
// backward: call reduce_sequence_parallel_gradients() instead.
class SequenceParallelHooks {
 public:
  SequenceParallelHooks(
      const torch::nn::Module& model,
      const SequenceParallelHooksOptions& options);
  ~SequenceParallelHooks();
  SequenceParallelHooks(SequenceParallelHooks&&) noexcept;
  SequenceParallelHooks& operator=(SequenceParallelHooks&&) = delete;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

[[nodiscard]] SequenceParallelHooks register_sequence_parallel_allreduce_hooks(
    const torch::nn::Module& model,
    int accumulation_steps = 1,
    bool fuse = false,
    const GroupPtr& group = nullptr);

} // namespace argosy
