#pragma once

#include <torch/nn/module.h>
#include <torch/nn/options/batchnorm.h>
#include <torch/nn/pimpl.h>

#include "argosy/comm/ops.h"

namespace argosy {

// Batch normalisation with mean and variance over the batches of all ranks of a
// group, which may differ in size. Dim 1 has the channels. In training, all
// ranks must call forward and backward alike. In evaluation it does what
// torch::nn::BatchNorm does, without communication.
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

// Makes every BatchNorm1d, 2d and 3d in `module` normalise over all ranks while
// it trains. The modules stay the same objects, so members and optimizers stay
// valid. Returns the number of converted modules. It takes effect in the world
// of the calling thread; all ranks of the group convert and run the modules
// alike.
//
// The first call replaces aten::batch_norm in the process (the hook
// `batch_norm`, docs/torch-hooks.md); no other thread may run batch_norm()
// meanwhile. Throws InvalidArgument for a module that has neither running
// statistics nor weights, because its calls cannot be recognized, and when the
// hook is switched off.
int convert_sync_batchnorm(
    torch::nn::Module& module, const GroupPtr& group = nullptr);

} // namespace argosy
