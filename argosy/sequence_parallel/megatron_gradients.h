#pragma once

#include <memory>

#include "argosy/comm/ops.h"

namespace torch::nn {
class Module;
}

// Gradients of parameters that all ranks have, but whose ranks see a part of
// the tokens each: norms, and biases behind RowSequenceParallelLinear.
namespace argosy {

void mark_as_sequence_parallel_parameter(const at::Tensor& parameter);
bool is_sequence_parallel_parameter(const at::Tensor& parameter);

// Sums the gradients of the marked parameters over the group, in one call for
// each type. All ranks of it must call it, after backward.
void reduce_sequence_parallel_gradients(
    const torch::nn::Module& model, const GroupPtr& group = nullptr);

struct SequenceParallelHooksOptions {
  int accumulation_steps = 1; // backwards whose gradients add up
  bool fuse = false; // one call at the end of backward, rather than one each
  GroupPtr group;
};

// Does so in backward, in every `accumulation_steps`th, for as long as it
// lives. Not together with DataParallel, which replaces gradients at the end
// of backward: call reduce_sequence_parallel_gradients() after it instead.
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
