#pragma once

#include <functional>
#include <memory>

#include "argosy/comm/ops.h"

namespace torch::nn {
class Module;
}

namespace argosy {

// How the results of the parts of a batch are combined.
enum class CopyOutputs {
  Sum,         // for losses that are sums; MindSpore's behaviour
  Mean,        // weighted by rows, for losses that are means
  Concatenate, // along dim 0
};

struct MicroBatchInterleavedOptions {
  int interleave_num = 2;
  CopyOutputs outputs = CopyOutputs::Sum;
};

// Runs a net on a batch in several parts, so that the communication of one part
// overlaps with the computation of another, in forward and backward. Use it
// with tensor parallel layers, which wait for other ranks in every layer. It
// keeps the activations of all parts, as many as for the whole batch.
//
//   MicroBatchInterleaved twice(
//       *gpt,
//       [&](const Tensors& in) { return gpt->loss(in[0], in[1]); },
//       {.outputs = CopyOutputs::Mean});
//   twice({text, target}).backward();
//
// Each part runs on a thread of its own, one at a time; the next part runs when
// a part waits for an operation of a group. So all parts must call the same
// operations, and all ranks of their groups must call it alike. The threads run
// as the rank of the caller.
//
// In the caller's graph the result is one node, with all parameters of the
// module as inputs, so hooks, DataParallel and accumulation see one gradient of
// each. Backward works once, and there is no second derivative.
class MicroBatchInterleaved {
 public:
  using Net = std::function<at::Tensor(const Tensors& inputs)>;

  // `module` holds the parameters that the net uses. Throws InvalidArgument if
  // interleave_num is below 1.
  MicroBatchInterleaved(
      const torch::nn::Module& module,
      Net net,
      const MicroBatchInterleavedOptions& options = {});
  ~MicroBatchInterleaved();
  MicroBatchInterleaved(MicroBatchInterleaved&&) noexcept;
  MicroBatchInterleaved& operator=(MicroBatchInterleaved&&) = delete;

  // Splits dim 0 of all inputs, which must have the same size, into parts that
  // differ by at most one row. Throws InvalidArgument if there are fewer rows
  // than parts, and whatever the net throws.
  at::Tensor operator()(const Tensors& inputs);

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_; // backward may outlive this
};

} // namespace argosy
