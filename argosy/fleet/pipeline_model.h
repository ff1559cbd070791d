#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "argosy/fleet/model.h"
#include "argosy/pipeline/pipeline_parallel.h"

namespace argosy::fleet {

class DistributedOptimizer;

// A pipeline that trains as a strategy says, with its stages sharded and copied
// over other axes. Made by distributed_model():
//
//   auto model = fleet::distributed_model(layers); // a PipelineLayer
//   auto optimizer = fleet::distributed_optimizer(adam);
//   at::Tensor loss = model.train_batch({inputs}, {labels}, optimizer);
class PipelineModel {
 public:
  struct TrainOptions {
    std::size_t loss_fn = 0;
    std::function<void()> lr_scheduler_step; // after the optimizer's
  };

  PipelineModel(
      std::shared_ptr<pipeline::StageModel> model,
      std::vector<pipeline::LossFn> loss_fns,
      const DistributedStrategy& strategy,
      const ModelSetup& setup);

  // One step: forward and backward of all microbatches, the optimizer's step,
  // gradients cleared. All ranks call it alike; the first stage needs inputs,
  // the one with the last part labels. Returns the loss of this rank's data, on
  // all stages.
  at::Tensor train_batch(
      const Tensors& inputs,
      const Tensors& labels,
      DistributedOptimizer& optimizer,
      const TrainOptions& options);
  at::Tensor train_batch(
      const Tensors& inputs,
      const Tensors& labels,
      DistributedOptimizer& optimizer) {
    return train_batch(inputs, labels, optimizer, {});
  }

  // Without the step.
  at::Tensor forward_backward(
      const Tensors& inputs,
      const Tensors& labels,
      DistributedOptimizer& optimizer,
      std::size_t loss_fn = 0);

  // The loss on all stages, the outputs on the one with the last part.
  pipeline::PipelineParallel::Evaluation eval_batch(
      const Tensors& inputs,
      const Tensors& labels,
      bool compute_loss = true,
      std::size_t loss_fn = 0);

  const pipeline::Schedule& schedule() const { return pipeline_->schedule(); }
  pipeline::PipelineParallel& pipeline() { return *pipeline_; }
  torch::nn::Module& module() { return pipeline_->model().module(); }

  // While the result lives, parameters are whole on all ranks.
  [[nodiscard]] training::Whole whole() {
    return training::Whole(pipeline_->core());
  }

 private:
  std::shared_ptr<pipeline::PipelineParallel> pipeline_;
  int micro_batch_size_;
};

} // namespace argosy::fleet
