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

// Makes every BatchNorm1d, 2d and 3d of a module tree normalise over the
// batches of all ranks while it trains. The modules stay the same objects, so
// members and optimizers stay valid. Returns how many there are. All ranks of
// the group must convert and run them alike, in the calling thread's world.
//
// The first call replaces aten::batch_norm in the process (the hook
// `batch_norm`); no other thread may run batch_norm() meanwhile. Throws
// InvalidArgument for a module with neither running statistics nor weights,
// which cannot be told from others, and when the hook is switched off.
int convert_sync_batchnorm(
    torch::nn::Module& module, const GroupPtr& group = nullptr);

} // namespace argosy
