#pragma once

#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>

#include <cstdint>

#include "argosy/comm/ops.h"

// Layers of which every rank of a group has a part. They take and return plain
// tensors. All ranks of the group make the same layers in the same order and
// call them alike, forward and backward; calls wait for the others.
//
// A part is that of the torch::nn layer that one process makes with the same
// seed: ranks draw the whole, in blocks, from kGlobalRng (rng.h) or else from
// torch's generator, which ranks that are threads share, so that those need
// model_parallel_random_seed(). What does not divide by the number of ranks
// leaves the last ones less, or nothing. Parameters that are cut are marked
// (parameter_marks.h). Without a group, that of the model axis
// (hybrid_mesh.h), or all ranks.
namespace argosy {

struct ColumnParallelLinearOptions {
  ColumnParallelLinearOptions(
      std::int64_t in_features, std::int64_t out_features)
      : in_features_(in_features), out_features_(out_features) {}

  TORCH_ARG(std::int64_t, in_features);
  TORCH_ARG(std::int64_t, out_features);
  TORCH_ARG(bool, bias) = true;
  // Else the output stays cut in its last dim.
  TORCH_ARG(bool, gather_output) = true;
  TORCH_ARG(GroupPtr, group) = nullptr;
};

// y = x W^T + b, cut by the outputs. The input is the same on all ranks.
// Backward sums its gradient over the group beside the product for that of W.
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
  // Whether the input is cut in its last dim already.
  TORCH_ARG(bool, input_is_parallel) = false;
  TORCH_ARG(GroupPtr, group) = nullptr;
};

// y = x W^T + b, cut by the inputs. The output is the same on all ranks; the
// bias, which all have whole, is added after the sum over the ranks.
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

// A look-up in a table that is cut by its rows. Throws InvalidArgument for
// numbers that are no row.
class VocabParallelEmbeddingImpl
    : public torch::nn::Cloneable<VocabParallelEmbeddingImpl> {
 public:
  explicit VocabParallelEmbeddingImpl(
      VocabParallelEmbeddingOptions its_options);

  void reset() override;
  at::Tensor forward(const at::Tensor& index);

  // The row of the whole table that this rank's first one is.
  std::int64_t first_row() const;

  VocabParallelEmbeddingOptions options;
  at::Tensor weight; // [part of num_embeddings, embedding_dim]

 private:
  GroupPtr group_;
};
TORCH_MODULE(VocabParallelEmbedding);

struct ParallelCrossEntropyOptions {
  TORCH_ARG(std::int64_t, ignore_index) = -100;
  // Needed where it does not divide by the number of ranks.
  TORCH_ARG(std::int64_t, num_classes) = 0;
  TORCH_ARG(GroupPtr, group) = nullptr;
};

// tensor_parallel::cross_entropy(): the loss of each target.
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
