#pragma once

#include <functional>
#include <memory>

#include "argosy/comm/ops.h"

namespace torch::nn {
class Module;
}

namespace argosy {

// What becomes of the results of the parts of a batch.
enum class CopyOutputs {
  Sum,         // of losses that are sums; as MindSpore's
  Mean,        // by rows: of losses that are means
  Concatenate, // along dim 0
};

struct MicroBatchInterleavedOptions {
  int interleave_num = 2;
  CopyOutputs outputs = CopyOutputs::Sum;
};

// A net that takes a batch in parts, such that one part's communication runs
// beside another's compute, forward and backward: for tensor parallel layers,
// whose every step waits for the other ranks. The activations of all parts are
// kept, as with the whole batch.
//
//   MicroBatchInterleaved twice(
//       *gpt,
//       [&](const Tensors& in) { return gpt->loss(in[0], in[1]); },
//       {.outputs = CopyOutputs::Mean});
//   twice({text, target}).backward();
//
// Each part is carried out by a thread of its own, one at a time: its turn ends
// where it waits for an operation. So parts must call the same operations, and
// all ranks of their groups must take part alike. The net is called on those
// threads, as the rank of whoever calls.
//
// The result is one step of the caller's graph, which all parameters of the
// module flow into once: hooks, DataParallel and accumulation see one gradient.
// It can go backward once, and has no second derivative.
class MicroBatchInterleaved {
 public:
  using Net = std::function<at::Tensor(const Tensors& inputs)>;

  // `module` has the parameters that the net uses. Throws InvalidArgument for
  // less than one part.
  MicroBatchInterleaved(
      const torch::nn::Module& module,
      Net net,
      const MicroBatchInterleavedOptions& options = {});
  ~MicroBatchInterleaved();
  MicroBatchInterleaved(MicroBatchInterleaved&&) noexcept;
  MicroBatchInterleaved& operator=(MicroBatchInterleaved&&) = delete;

  // Cuts dim 0 of all inputs, which must be of one size, into parts that differ
  // by a row at most. Throws InvalidArgument when there are fewer rows than
  // parts, and what the net throws.
  at::Tensor operator()(const Tensors& inputs);

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_; // backward may outlive this
};

} // namespace argosy
