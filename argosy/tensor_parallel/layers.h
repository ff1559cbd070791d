#pragma once

#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>

#include <cstdint>

#include "argosy/comm/ops.h"

// Layers whose weights are split over the ranks of a group. They take and
// return plain tensors. All ranks of the group construct the same layers in the
// same order and call forward and backward alike; calls block until the other
// ranks have come.
//
// Each rank holds its slice of the weights that the torch::nn layer would have
// in one process with the same seed: every rank draws the whole, in blocks,
// from kGlobalRng (rng.h), or else from torch's default generator. Ranks that
// are threads share that generator, so they must call
// model_parallel_random_seed() first. If a dim does not divide by the number of
// ranks, the last ranks hold less, or nothing. Split parameters are marked
// (parameter_marks.h). `group` null: the group of the model axis
// (hybrid_mesh.h), or all ranks.
namespace argosy {

struct ColumnParallelLinearOptions {
  ColumnParallelLinearOptions(
      std::int64_t in_features, std::int64_t out_features)
      : in_features_(in_features), out_features_(out_features) {}

  TORCH_ARG(std::int64_t, in_features);
  TORCH_ARG(std::int64_t, out_features);
  TORCH_ARG(bool, bias) = true;
  // If false, the output stays split in its last dim.
  TORCH_ARG(bool, gather_output) = true;
  TORCH_ARG(GroupPtr, group) = nullptr;
};

// y = x W^T + b, split by output features. The input must be the same on all
// ranks. Backward sums its gradient over the group while computing the gradient
// of W.
class ColumnParallelLinearImpl
    : public torch::nn::Cloneable<ColumnParallelLinearImpl> {
 public:
  explicit ColumnParallelLinearImpl(ColumnParallelLinearOptions its_options);

  void reset() override;
  at::Tensor forward(const at::Tensor& x);

  ColumnParallelLinearOptions options;
  at::Tensor weight; // [part of out, in]
  at::Tensor bias;   // [part of out]

 private:
  GroupPtr group_;
};
TORCH_MODULE(ColumnParallelLinear);

struct RowParallelLinearOptions {
  RowParallelLinearOptions(std::int64_t in_features, std::int64_t out_features)
      : in_features_(in_features), out_features_(out_features) {}

  TORCH_ARG(std::int64_t, in_features);
  TORCH_ARG(std::int64_t, out_features);
  TORCH_ARG(bool, bias) = true;
  // Whether the input is already split in its last dim.
  TORCH_ARG(bool, input_is_parallel) = false;
  TORCH_ARG(GroupPtr, group) = nullptr;
};

// y = x W^T + b, split by input features. The output is the same on all ranks.
// All ranks hold the whole bias, which is added after the sum over the ranks.
class RowParallelLinearImpl
    : public torch::nn::Cloneable<RowParallelLinearImpl> {
 public:
  explicit RowParallelLinearImpl(RowParallelLinearOptions its_options);

  void reset() override;
  at::Tensor forward(const at::Tensor& x);

  RowParallelLinearOptions options;
  at::Tensor weight; // [out, part of in]
  at::Tensor bias;   // [out]

 private:
  GroupPtr group_;
};
TORCH_MODULE(RowParallelLinear);

struct VocabParallelEmbeddingOptions {
  VocabParallelEmbeddingOptions(
      std::int64_t num_embeddings, std::int64_t embedding_dim)
      : num_embeddings_(num_embeddings), embedding_dim_(embedding_dim) {}

  TORCH_ARG(std::int64_t, num_embeddings);
  TORCH_ARG(std::int64_t, embedding_dim);
  TORCH_ARG(GroupPtr, group) = nullptr;
};

// An embedding whose table is split by rows. forward() throws InvalidArgument
// for an index outside of the table.
class VocabParallelEmbeddingImpl
    : public torch::nn::Cloneable<VocabParallelEmbeddingImpl> {
 public:
  explicit VocabParallelEmbeddingImpl(
      VocabParallelEmbeddingOptions its_options);

  void reset() override;
  at::Tensor forward(const at::Tensor& index);

  // Global index of the first local row.
  std::int64_t first_row() const;

  VocabParallelEmbeddingOptions options;
  at::Tensor weight; // [part of num_embeddings, embedding_dim]

 private:
  GroupPtr group_;
};
TORCH_MODULE(VocabParallelEmbedding);

struct ParallelCrossEntropyOptions {
  TORCH_ARG(std::int64_t, ignore_index) = -100;
  // Required if it does not divide by the number of ranks.
  TORCH_ARG(std::int64_t, num_classes) = 0;
  TORCH_ARG(GroupPtr, group) = nullptr;
};

// The loss of each target; see tensor_parallel::cross_entropy().
class ParallelCrossEntropyImpl
    : public torch::nn::Cloneable<ParallelCrossEntropyImpl> {
 public:
  explicit ParallelCrossEntropyImpl(
      ParallelCrossEntropyOptions its_options = {});

  void reset() override {}
  at::Tensor forward(const at::Tensor& scores, const at::Tensor& target);

  ParallelCrossEntropyOptions options;

 private:
  GroupPtr group_;
};
TORCH_MODULE(ParallelCrossEntropy);

} // namespace argosy
