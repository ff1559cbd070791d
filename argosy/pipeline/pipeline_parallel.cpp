#include "argosy/pipeline/pipeline_parallel.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <torch/nn/module.h>

#include <algorithm>

#include "argosy/common/error.h"
#include "argosy/pipeline/pipeline_layer.h"
#include "argosy/pipeline/schedules/schedules.h"
#include "argosy/pipeline/shared_gradients.h"
#include "argosy/pipeline/verify.h"

namespace argosy::pipeline {

namespace {

const char* to_string(PartOrder order) {
  return order == PartOrder::kV ? "in a V" : "in turn";
}

// Returns the schedule if it is valid and matches the model's parts.
Schedule checked(Schedule schedule, const StageModel& model, int microbatches) {
  ARGOSY_CHECK(
      schedule.stages == model.stages() && schedule.chunks == model.chunks() &&
          (schedule.chunks == 1 || schedule.order == model.order()),
      "[pipeline] the schedule {} is for {} stages with {} chunks each, {}; "
      "the model has {} with {}, {}: see chunks and order of "
      "PipelineLayerOptions",
      schedule.name,
      schedule.stages,
      schedule.chunks,
      to_string(schedule.order),
      model.stages(),
      model.chunks(),
      to_string(model.order()));
  ARGOSY_CHECK(
      schedule.microbatches == microbatches,
      "[pipeline] the schedule is for {} microbatches, and there are {}",
      schedule.microbatches,
      microbatches);
  verify(schedule);
  return schedule;
}

Schedule schedule_for(const StageModel& model, const PipelineOptions& options) {
  ARGOSY_CHECK(
      options.microbatches >= 1,
      "[pipeline] microbatches is {}, expected at least 1",
      options.microbatches);
  return checked(
      options.plan ? *options.plan
                   : make_schedule(
                         options.schedule,
                         model.stages(),
                         options.microbatches,
                         model.chunks()),
      model,
      options.microbatches);
}

} // namespace

PipelineParallel::PipelineParallel(
    std::shared_ptr<StageModel> model,
    std::vector<LossFn> loss_fns,
    PipelineOptions options,
    std::shared_ptr<training::ModelCore> core)
    : model_(std::move(model)),
      loss_fns_(std::move(loss_fns)),
      options_(std::move(options)),
      core_(std::move(core)),
      schedule_(schedule_for(*model_, options_)),
      engine_(*model_, options_.autocast, options_.autocast_lists) {}

PipelineParallel::PipelineParallel(
    const std::shared_ptr<PipelineLayerImpl>& layers,
    PipelineOptions options,
    std::shared_ptr<training::ModelCore> core)
    : PipelineParallel(
          layers,
          layers->options().loss_fns,
          std::move(options),
          std::move(core)) {}

void PipelineParallel::set_schedule(Schedule schedule) {
  schedule_ = checked(std::move(schedule), *model_, options_.microbatches);
}

Engine::Batch PipelineParallel::batch_of(
    std::vector<Microbatch> microbatches, const BatchOptions& batch) const {
  ARGOSY_CHECK(
      static_cast<int>(microbatches.size()) == options_.microbatches,
      "[pipeline] {} microbatches, expected {}",
      microbatches.size(),
      options_.microbatches);
  ARGOSY_CHECK(
      model_->stage() != 0 || !microbatches.front().inputs.empty(),
      "[pipeline] the first stage got no inputs");
  ARGOSY_CHECK(
      loss_fns_.empty() || batch.loss_fn < loss_fns_.size(),
      "[pipeline] there is no loss function {} among {}",
      batch.loss_fn,
      loss_fns_.size());
  Engine::Batch result;
  result.microbatches = std::move(microbatches);
  result.dynamic_shapes = options_.dynamic_shapes;
  if (!loss_fns_.empty()) {
    result.loss = [this, &fn = loss_fns_[batch.loss_fn]](
                      const Tensors& outputs, const Tensors& labels) {
      return model_->loss(fn, outputs, labels);
    };
  }
  const bool divides =
      options_.loss_reduction == PipelineOptions::Reduction::kMean &&
      !options_.delay_scale_loss;
  const int count = divides ? options_.microbatches : 1;
  result.scale = [count, more = batch.scale_loss](const at::Tensor& loss) {
    const at::Tensor share = count == 1 ? loss : loss / count;
    return more ? more(share) : share;
  };
  // Takes `scale` to be linear: its value at 1 is the factor.
  result.loss_scale = result.scale(at::ones({})).item<double>();
  return result;
}

void PipelineParallel::scale_gradients(const Tensors& except) const {
  if (!options_.delay_scale_loss ||
      options_.loss_reduction == PipelineOptions::Reduction::kSum) {
    return;
  }
  const at::NoGradGuard no_grad;
  for (const at::Tensor& each : model_->module().parameters()) {
    const bool is_excepted = std::ranges::any_of(
        except, [&](const at::Tensor& other) { return other.is_same(each); });
    if (each.grad().defined() && !is_excepted) {
      each.mutable_grad().div_(options_.microbatches);
    }
  }
}

// Gradients of weights that stages share stay whole until they are summed over
// the stages.
void PipelineParallel::reduce_early() const {
  Tensors whole;
  for (const SharedWeight& weight : model_->shared_weights()) {
    whole.push_back(weight.parameter);
  }
  scale_gradients(whole);
  core_->reduce_gradients_early(whole);
}

at::Tensor PipelineParallel::share_loss(const std::vector<at::Tensor>& losses) {
  double sum = 0;
  bool is_double = false; // only the stage with the loss knows
  for (const at::Tensor& each : losses) {
    sum += each.item<double>();
    is_double = is_double || each.scalar_type() == at::kDouble;
  }
  if (options_.loss_reduction == PipelineOptions::Reduction::kMean) {
    sum /= options_.microbatches;
  }
  const at::Tensor told = at::tensor({sum, is_double ? 1.0 : 0.0}, at::kDouble);
  engine_.transport().broadcast(
      told, schedule_.stage_of(schedule_.parts() - 1));
  return told[0].to(told[1].item<double>() != 0 ? at::kDouble : at::kFloat);
}

at::Tensor PipelineParallel::forward_backward(
    const Tensors& inputs, const Tensors& labels, const BatchOptions& batch) {
  return forward_backward(
      split_batch(inputs, labels, options_.microbatches), batch);
}

at::Tensor PipelineParallel::forward_backward(
    std::vector<Microbatch> microbatches, const BatchOptions& batch) {
  ARGOSY_CHECK(
      !loss_fns_.empty(),
      "[pipeline] training needs a loss function: see loss_fns");
  // Read before NoSync below turns it off.
  const bool reduces = core_ && core_->sync();
  Engine::Result result;
  {
    std::optional<training::NoSync> no_sync;
    if (core_) {
      core_->before_forward();
      // Each microbatch runs a backward of its own; gradients accumulate and
      // are reduced once, after the last, unless the core keeps parts of them.
      no_sync.emplace(core_);
    }
    Engine::Batch work = batch_of(std::move(microbatches), batch);
    if (core_ && core_->keeps_gradient_parts()) {
      work.after_backward = [this] { reduce_early(); };
    }
    result = engine_.train(schedule_, work);
  }
  // While gradients are merged over batches, the sums wait for the last batch:
  // a second sum would count the first one's result again.
  if (!core_ || reduces) {
    scale_gradients();
    sum_gradients(model_->shared_weights(), model_->group());
  }
  if (reduces) {
    core_->reduce_gradients();
  }
  return share_loss(result.losses);
}

PipelineParallel::Evaluation PipelineParallel::evaluate(
    const Tensors& inputs,
    const Tensors& labels,
    bool compute_loss,
    const BatchOptions& batch) {
  if (core_) {
    core_->before_forward();
  }
  Engine::Batch whole =
      batch_of(split_batch(inputs, labels, options_.microbatches), batch);
  if (!compute_loss) {
    whole.loss = nullptr;
  }
  Engine::Result result = engine_.evaluate(schedule_, whole);
  Evaluation evaluation;
  evaluation.outputs = std::move(result.outputs);
  if (compute_loss) {
    evaluation.loss = share_loss(result.losses);
  }
  return evaluation;
}

} // namespace argosy::pipeline
