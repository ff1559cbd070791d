#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "argosy/pipeline/engine.h"
#include "argosy/pipeline/microbatches.h"
#include "argosy/training/parallel_model.h"

namespace argosy::pipeline {

class PipelineLayerImpl;

struct PipelineOptions {
  // A batch is cut into so many microbatches.
  int microbatches = 1;
  // One of make_schedule(), or one of one's own, as synthesize() makes them.
  std::string schedule = "1f1b";
  std::optional<Schedule> plan;

  // The loss of a batch: the mean of its microbatches' losses, or their sum.
  enum class Reduction { kMean, kSum };
  Reduction loss_reduction = Reduction::kMean;
  // Divide gradients by the number of microbatches at the end, in place of each
  // loss: fewer roundings in narrow types.
  bool delay_scale_loss = false;

  // Shapes inside of the model depend on values, so every message tells its
  // own. Without, they are told once for each shape of microbatches.
  bool dynamic_shapes = false;
  // Parts compute in bfloat16, and tell each other so; the loss is float32.
  bool autocast = false;
};

// What one batch may say in addition.
struct BatchOptions {
  std::size_t loss_fn = 0; // which
  // Of a microbatch's loss: what backward starts from.
  std::function<at::Tensor(const at::Tensor&)> scale_loss;
};

// Trains a model that is cut by depth over the stages of a pipeline:
//
//   PipelineLayer layers(...);
//   PipelineParallel pipeline(layers.ptr(), {.microbatches = 8});
//   at::Tensor loss = pipeline.forward_backward(inputs, labels);
//   optimizer.step();
//
// All stages call it alike. The gradients are those of one process that runs
// the microbatches one after the other, to the last bit but for weights that
// several stages share, which are added up in another order.
class PipelineParallel {
 public:
  // With a core, gradients are averaged over the ranks with other data, too.
  // Throws InvalidArgument when the schedule is not sound, or not made for the
  // model's parts.
  PipelineParallel(
      std::shared_ptr<StageModel> model,
      std::vector<LossFn> loss_fns,
      PipelineOptions options,
      std::shared_ptr<training::ModelCore> core = nullptr);
  // With the loss functions of the layers.
  PipelineParallel(
      const std::shared_ptr<PipelineLayerImpl>& layers,
      PipelineOptions options,
      std::shared_ptr<training::ModelCore> core = nullptr);

  // The first stage needs inputs, the one with the last part labels. Returns
  // the loss on all stages. Gradients add to those that are there.
  at::Tensor forward_backward(
      const Tensors& inputs,
      const Tensors& labels,
      const BatchOptions& batch = {});
  // Of microbatches, of any shapes.
  at::Tensor forward_backward(
      std::vector<Microbatch> microbatches, const BatchOptions& batch = {});

  struct Evaluation {
    at::Tensor loss; // on all stages; undefined when there are no labels
    std::vector<Tensors> outputs; // by microbatch, where the last part is
  };
  // Without gradients. With `compute_loss` all stages get it.
  Evaluation evaluate(
      const Tensors& inputs,
      const Tensors& labels,
      bool compute_loss = true,
      const BatchOptions& batch = {});

  // After a change of the model, as parameters that train no more: what passes
  // between stages may be something else. All stages call it.
  void forget_shapes() { engine_.transport().forget_shapes(); }

  const Schedule& schedule() const { return schedule_; }
  // For the next batches. All ranks call it, with the same one. Throws as the
  // constructor does.
  void set_schedule(Schedule schedule);
  StageModel& model() { return *model_; }
  const PipelineOptions& options() const { return options_; }
  const std::shared_ptr<training::ModelCore>& core() const { return core_; }

  // For observers: calls at the beginning and the end of each step, and when
  // this stage did what in the last batch.
  Engine& engine() { return engine_; }

 private:
  Engine::Batch batch_of(
      std::vector<Microbatch> microbatches, const BatchOptions& batch) const;
  at::Tensor share_loss(const std::vector<at::Tensor>& losses);
  void scale_gradients() const;

  const std::shared_ptr<StageModel> model_;
  const std::vector<LossFn> loss_fns_;
  const PipelineOptions options_;
  const std::shared_ptr<training::ModelCore> core_;
  Schedule schedule_;
  Engine engine_;
};

} // namespace argosy::pipeline
