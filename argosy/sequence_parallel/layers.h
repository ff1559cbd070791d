#pragma once

#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>

#include <cstdint>

#include "argosy/comm/ops.h"

// Tensor parallel linear layers for Megatron's sequence parallelism: between
// them, tokens are split over the tensor parallel group. What
// tensor_parallel/layers.h says about its layers holds for these too.
namespace argosy {

struct ColumnSequenceParallelLinearOptions {
  ColumnSequenceParallelLinearOptions(
      std::int64_t in_features, std::int64_t out_features)
      : in_features_(in_features), out_features_(out_features) {}

  TORCH_ARG(std::int64_t, in_features);
  TORCH_ARG(std::int64_t, out_features);
  TORCH_ARG(bool, bias) = true;
  TORCH_ARG(std::int64_t, sequence_dim) = 0;
  // Required if it does not divide by the number of ranks.
  TORCH_ARG(std::int64_t, sequence_length) = 0;
  // Keep only this rank's slice of the input for backward, and gather the input
  // again there.
  TORCH_ARG(bool, recompute_allgather) = false;
  TORCH_ARG(GroupPtr, group) = nullptr;
};

// y = x W^T + b, split by output features. Each rank passes its slice of the
// tokens of x; forward gathers x. Backward reduces and scatters the gradient of
// x while computing the gradient of W.
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

// y = x W^T + b, split by input features. x must be split in its last dim. Each
// rank gets its slice of the tokens of y. The bias is added to that slice, and
// is marked sequence parallel.
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
