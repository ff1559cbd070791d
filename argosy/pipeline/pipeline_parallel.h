#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "argosy/optim/autocast.h"
#include "argosy/pipeline/engine.h"
#include "argosy/pipeline/microbatches.h"
#include "argosy/training/parallel_model.h"

namespace argosy::pipeline {

class PipelineLayerImpl;

struct PipelineOptions {
  // The number of microbatches that a batch is split into.
  int microbatches = 1;
  // A name for make_schedule(); `plan`, if set, takes precedence.
  std::string schedule = "1f1b";
  std::optional<Schedule> plan;

  // Whether the batch loss is the mean or the sum of the microbatch losses.
  enum class Reduction { kMean, kSum };
  Reduction loss_reduction = Reduction::kMean;
  // For kMean: divide the accumulated gradients once, instead of each loss.
  // That rounds less in narrow dtypes.
  bool delay_scale_loss = false;

  // Set it if shapes inside the model depend on values: every message then
  // carries its shapes. Otherwise stages exchange shapes once per shape of
  // microbatch.
  bool dynamic_shapes = false;
  // Parts compute and send bfloat16; the loss is float32.
  bool autocast = false;
  optim::AutoCastLists autocast_lists;
};

// Options of a single batch.
struct BatchOptions {
  std::size_t loss_fn = 0; // index of the loss function
  // Maps a microbatch's loss to the tensor that backward starts from.
  std::function<at::Tensor(const at::Tensor&)> scale_loss;
};

// Trains a model that is split by depth over the stages of a pipeline:
//
//   PipelineLayer layers(...);
//   PipelineParallel pipeline(layers.ptr(), {.microbatches = 8});
//   at::Tensor loss = pipeline.forward_backward(inputs, labels);
//   optimizer.step();
//
// All stages call its methods alike; they block. Gradients equal, bit for bit,
// those of one process that runs the microbatches one after the other, except
// for weights shared between stages, which are summed in another order.
class PipelineParallel {
 public:
  // With a core, gradients are also reduced over the ranks with other data.
  // Throws InvalidArgument when the schedule is invalid or does not match the
  // model's parts.
  PipelineParallel(
      std::shared_ptr<StageModel> model,
      std::vector<LossFn> loss_fns,
      PipelineOptions options,
      std::shared_ptr<training::ModelCore> core = nullptr);
  // The same with the loss functions of the layers.
  PipelineParallel(
      const std::shared_ptr<PipelineLayerImpl>& layers,
      PipelineOptions options,
      std::shared_ptr<training::ModelCore> core = nullptr);

  // Only the first stage reads `inputs`, only the one with the last part reads
  // `labels`. Returns the loss on all stages, as float32, or as
  // double if the loss function returns doubles. Gradients accumulate.
  at::Tensor forward_backward(
      const Tensors& inputs,
      const Tensors& labels,
      const BatchOptions& batch = {});
  // The same for given microbatches, which may differ in shape.
  at::Tensor forward_backward(
      std::vector<Microbatch> microbatches, const BatchOptions& batch = {});

  struct Evaluation {
    at::Tensor loss; // on all stages; undefined without labels
    // By microbatch, on the stage with the last part.
    std::vector<Tensors> outputs;
  };
  // Runs forward only. If `compute_loss`, all stages get the loss.
  Evaluation evaluate(
      const Tensors& inputs,
      const Tensors& labels,
      bool compute_loss = true,
      const BatchOptions& batch = {});

  // Call it, on all stages, after a change of the model that affects the
  // tensors between stages, for example after freezing parameters.
  void forget_shapes() { engine_.transport().forget_shapes(); }

  const Schedule& schedule() const { return schedule_; }
  // Changes the schedule of later batches. All ranks pass the same one. Throws
  // as the constructor does.
  void set_schedule(Schedule schedule);
  StageModel& model() { return *model_; }
  const PipelineOptions& options() const { return options_; }
  const std::shared_ptr<training::ModelCore>& core() const { return core_; }

  // For observers: set_listener() and the times of the last batch.
  Engine& engine() { return engine_; }

 private:
  Engine::Batch batch_of(
      std::vector<Microbatch> microbatches, const BatchOptions& batch) const;
  at::Tensor share_loss(const std::vector<at::Tensor>& losses);
  void scale_gradients(const Tensors& except = {}) const;
  void reduce_early() const;

  const std::shared_ptr<StageModel> model_;
  const std::vector<LossFn> loss_fns_;
  const PipelineOptions options_;
  const std::shared_ptr<training::ModelCore> core_;
  Schedule schedule_;
  Engine engine_;
};

} // namespace argosy::pipeline
