#include "argosy/fleet/pipeline_model.h"

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/fleet/input_check.h"
#include "argosy/fleet/optimizer.h"
#include "argosy/fleet/strategy.h"
#include "argosy/pipeline/schedule_json.h"

namespace argosy::fleet {

namespace {

using pipeline::PipelineOptions;
using pipeline::PipelineParallel;

pipeline::Schedule load_schedule(const std::string& path) {
  const auto text = read_file(path);
  ARGOSY_CHECK(
      text,
      "[fleet.strategy] pipeline_configs.schedule_file {}: there is no such "
      "file",
      path);
  return pipeline::schedule_from_json(*text, path);
}

PipelineOptions options_of(
    const DistributedStrategy& strategy, const ModelSetup& setup) {
  const PipelineConfigs& configs = strategy.pipeline_configs;
  PipelineOptions options;
  options.microbatches = configs.accumulate_steps;
  options.schedule = configs.schedule_mode;
  if (!configs.schedule_file.get().empty()) {
    options.plan = load_schedule(configs.schedule_file);
  }
  options.loss_reduction = configs.loss_reduction.get() == "sum"
      ? PipelineOptions::Reduction::kSum
      : PipelineOptions::Reduction::kMean;
  options.delay_scale_loss = configs.delay_scale_loss;
  // Paddle's name for sending shapes once instead of with every message.
  options.dynamic_shapes = !configs.p2p_cache_shape;
  options.autocast = setup.autocast;
  options.autocast_lists = setup.autocast_lists;
  return options;
}

void check_rows(const Tensors& tensors, int rows, int microbatches) {
  for (const at::Tensor& each : tensors) {
    ARGOSY_CHECK(
        rows == 0 || (each.dim() > 0 && each.size(0) == rows * microbatches),
        "[fleet.train_batch] a batch of {}, expected "
        "pipeline_configs.micro_batch_size {} x accumulate_steps {}",
        each.dim() > 0 ? each.size(0) : 0,
        rows,
        microbatches);
  }
}

} // namespace

PipelineModel::PipelineModel(
    std::shared_ptr<pipeline::StageModel> model,
    std::vector<pipeline::LossFn> loss_fns,
    const DistributedStrategy& strategy,
    const ModelSetup& setup)
    : micro_batch_size_(strategy.pipeline_configs.micro_batch_size),
      input_check_(setup.input_check) {
  if (strategy.recompute) {
    model->recompute_modules(
        strategy.recompute_configs.checkpoints,
        recompute_options(strategy.recompute_configs));
  }
  auto core = detail::make_core(model->module(), setup);
  detail::register_model(core, model->module(), setup);
  pipeline_ = std::make_shared<PipelineParallel>(
      std::move(model),
      std::move(loss_fns),
      options_of(strategy, setup),
      std::move(core));
}

at::Tensor PipelineModel::forward_backward(
    const Tensors& inputs,
    const Tensors& labels,
    DistributedOptimizer& optimizer,
    std::size_t loss_fn) {
  const int microbatches = pipeline_->options().microbatches;
  check_rows(inputs, micro_batch_size_, microbatches);
  check_rows(labels, micro_batch_size_, microbatches);
  // Only the first stage reads inputs.
  if (input_check_ != nullptr && pipeline_->model().stage() == 0) {
    input_check_->compare(inputs, "inputs");
  }
  const at::Tensor loss = pipeline_->forward_backward(
      inputs,
      labels,
      {.loss_fn = loss_fn, .scale_loss = [&](const at::Tensor& each) {
         return optimizer.scaled(each);
       }});
  // The engine runs backward itself, so the optimizer has to be told.
  optimizer.after_backward(loss);
  return loss;
}

at::Tensor PipelineModel::train_batch(
    const Tensors& inputs,
    const Tensors& labels,
    DistributedOptimizer& optimizer,
    const TrainOptions& options) {
  const at::Tensor loss =
      forward_backward(inputs, labels, optimizer, options.loss_fn);
  optimizer.step();
  optimizer.zero_grad();
  if (options.lr_scheduler_step) {
    options.lr_scheduler_step();
  }
  return loss;
}

PipelineParallel::Evaluation PipelineModel::eval_batch(
    const Tensors& inputs,
    const Tensors& labels,
    bool compute_loss,
    std::size_t loss_fn) {
  return pipeline_->evaluate(
      inputs, labels, compute_loss, {.loss_fn = loss_fn});
}

} // namespace argosy::fleet
