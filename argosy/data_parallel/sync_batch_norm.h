#pragma once

#include <torch/nn/module.h>
#include <torch/nn/options/batchnorm.h>
#include <torch/nn/pimpl.h>

#include "argosy/comm/ops.h"

namespace argosy {

// Batch normalisation over the batches of all ranks, which may differ in size:
// dim 1 has the channels. In evaluation as torch::nn::BatchNorm.
class SyncBatchNormImpl : public torch::nn::Module {
 public:
  explicit SyncBatchNormImpl(
      torch::nn::BatchNormOptions options, GroupPtr group = nullptr);

  at::Tensor forward(const at::Tensor& input);

  torch::nn::BatchNormOptions options;
  at::Tensor weight;
  at::Tensor bias;
  at::Tensor running_mean;
  at::Tensor running_var;

 private:
  const GroupPtr group_;
};
TORCH_MODULE(SyncBatchNorm);

// Makes every BatchNorm1d, 2d and 3d of a module tree normalise over all ranks
// while it trains. The modules stay the same objects, so members and optimizers
// stay valid. Returns how many there are. For the calling thread's world;
// throws InvalidArgument for one without running statistics and without
// weights, which cannot be told from others.
int convert_sync_batchnorm(
    torch::nn::Module& module, const GroupPtr& group = nullptr);

} // namespace argosy
