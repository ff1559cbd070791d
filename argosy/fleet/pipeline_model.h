#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "argosy/fleet/model.h"
#include "argosy/pipeline/pipeline_parallel.h"

namespace argosy::checkpoint {
class State;
} // namespace argosy::checkpoint

namespace argosy::fleet {

class DistributedOptimizer;

// A pipeline that trains as a strategy says; its stages can also be sharded and
// replicated over other axes. Made by Fleet::distributed_model():
//
//   auto model = fleet::distributed_model(layers); // a PipelineLayer
//   auto optimizer = fleet::distributed_optimizer(adam);
//   at::Tensor loss = model.train_batch({inputs}, {labels}, optimizer);
class PipelineModel {
 public:
  struct TrainOptions {
    std::size_t loss_fn = 0;
    std::function<void()> lr_scheduler_step; // called after each optimizer step
  };

  PipelineModel(
      std::shared_ptr<pipeline::StageModel> model,
      std::vector<pipeline::LossFn> loss_fns,
      const DistributedStrategy& strategy,
      const ModelSetup& setup);

  // Runs one step: forward and backward of all microbatches, optimizer step,
  // zero_grad(). All ranks call it alike. Only the first stage reads `inputs`,
  // only the stage with the last layers reads `labels`. Returns the loss of
  // this rank's data, on all stages, as float32, or as double if the loss
  // function returns doubles. Throws InvalidArgument when the batch size
  // does not match pipeline_configs.
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

  // The same without step() and zero_grad(), for accumulation over batches.
  at::Tensor forward_backward(
      const Tensors& inputs,
      const Tensors& labels,
      DistributedOptimizer& optimizer,
      std::size_t loss_fn = 0);

  // Returns the loss on all stages and the outputs on the stage with the last
  // layers.
  pipeline::PipelineParallel::Evaluation eval_batch(
      const Tensors& inputs,
      const Tensors& labels,
      bool compute_loss = true,
      std::size_t loss_fn = 0);

  const pipeline::Schedule& schedule() const { return pipeline_->schedule(); }
  pipeline::PipelineParallel& pipeline() { return *pipeline_; }
  torch::nn::Module& module() { return pipeline_->model().module(); }

  // While the result is alive, sharded parameters are gathered on all ranks.
  [[nodiscard]] training::Whole whole() {
    return training::Whole(pipeline_->core());
  }

 private:
  std::shared_ptr<pipeline::PipelineParallel> pipeline_;
  int micro_batch_size_;
  std::shared_ptr<InputCheck> input_check_;
};

// How checkpoint::State takes it: "model", the states of this rank's stage.
void add_to(
    checkpoint::State& state, const std::string& name, PipelineModel& model);

} // namespace argosy::fleet
