#pragma once

#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>

#include <cstdint>

#include "argosy/comm/ops.h"

// Linear layers between which the tokens are cut over the tensor parallel
// group. What parallel/tensor/layers.h says of its layers holds for them too.
namespace argosy {

struct ColumnSequenceParallelLinearOptions {
  ColumnSequenceParallelLinearOptions(
      std::int64_t in_features, std::int64_t out_features)
      : in_features_(in_features), out_features_(out_features) {}

  TORCH_ARG(std::int64_t, in_features);
  TORCH_ARG(std::int64_t, out_features);
  TORCH_ARG(bool, bias) = true;
  TORCH_ARG(std::int64_t, sequence_dim) = 0;
  // Needed where it does not divide by the number of ranks.
  TORCH_ARG(std::int64_t, sequence_length) = 0;
  // Keeps this rank's part of the input for backward, and gathers it again
  // there.
  TORCH_ARG(bool, recompute_allgather) = false;
  TORCH_ARG(GroupPtr, group) = nullptr;
};

// y = x W^T + b, cut by the outputs, of an x whose tokens are cut: gathers it.
// Backward scatters the sum of the gradients of x beside the product for that
// of W.
class ColumnSequenceParallelLinearImpl
    : public torch::nn::Cloneable<ColumnSequenceParallelLinearImpl> {
 public:
  explicit ColumnSequenceParallelLinearImpl(
      ColumnSequenceParallelLinearOptions its_options);

  void reset() override;
  at::Tensor forward(const at::Tensor& x);

  ColumnSequenceParallelLinearOptions options;
  at::Tensor weight; // [part of out, in]
  at::Tensor bias;   // [part of out]

 private:
  GroupPtr group_;
};
TORCH_MODULE(ColumnSequenceParallelLinear);

struct RowSequenceParallelLinearOptions {
  RowSequenceParallelLinearOptions(
      std::int64_t in_features, std::int64_t out_features)
      : in_features_(in_features), out_features_(out_features) {}

  TORCH_ARG(std::int64_t, in_features);
  TORCH_ARG(std::int64_t, out_features);
  TORCH_ARG(bool, bias) = true;
  TORCH_ARG(std::int64_t, sequence_dim) = 0;
  TORCH_ARG(GroupPtr, group) = nullptr;
};

// y = x W^T + b, cut by the inputs, of an x that is cut in its last dim. Each
// rank gets its part of the tokens; the bias is added to that, and is marked
// sequence parallel.
class RowSequenceParallelLinearImpl
    : public torch::nn::Cloneable<RowSequenceParallelLinearImpl> {
 public:
  explicit RowSequenceParallelLinearImpl(
      RowSequenceParallelLinearOptions its_options);

  void reset() override;
  at::Tensor forward(const at::Tensor& x);

  RowSequenceParallelLinearOptions options;
  at::Tensor weight; // [out, part of in]
  at::Tensor bias;   // [out]

 private:
  GroupPtr group_;
};
TORCH_MODULE(RowSequenceParallelLinear);

} // namespace argosy
