#include "argosy/fleet/optimizer.h"

#include <ATen/ops/ones.h>

#include <optional>
#include <set>

#include "argosy/common/error.h"
#include "argosy/data_parallel/compression.h"
#include "argosy/fleet/averaged_states.h"
#include "argosy/fleet/axes.h"
#include "argosy/fleet/hybrid_step.h"
#include "argosy/fleet/ps_model.h"
#include "argosy/fleet/registry.h"
#include "argosy/fleet/replace_optimizer.h"
#include "argosy/fleet/spread_model.h"
#include "argosy/fleet/spread_optimizer.h"
#include "argosy/fleet/strategy.h"
#include "argosy/optim/ema.h"
#include "argosy/optim/fused.h"
#include "argosy/optim/grad_scaler.h"
#include "argosy/optim/gradient_merge.h"
#include "argosy/optim/gradients.h"
#include "argosy/optim/local_sgd.h"
#include "argosy/optim/parameter_groups.h"
#include "argosy/sharding/sharded_optimizer.h"
#include "argosy/training/loss_scale.h"

namespace argosy::fleet {

namespace {

using torch::optim::Optimizer;

std::set<ParameterId> ids_of(const std::vector<at::Tensor>& params) {
  std::set<ParameterId> ids;
  for (const at::Tensor& param : params) {
    ids.insert(param.unsafeGetTensorImpl());
  }
  return ids;
}

optim::GradientMergeOptions merge_of(const DistributedStrategy& strategy) {
  if (!strategy.gradient_merge) {
    return {};
  }
  const auto& configs = strategy.gradient_merge_configs;
  return {.k_steps = configs.k_steps, .avg = configs.avg};
}

// With the group of all ranks: all must skip the same steps, or their
// parameters would differ.
std::unique_ptr<optim::GradScaler> scaler_of(
    const DistributedStrategy& strategy, const GroupPtr& group) {
  if (!strategy.amp) {
    return nullptr;
  }
  const auto& configs = strategy.amp_configs;
  return std::make_unique<optim::GradScaler>(
      optim::GradScalerOptions{
          .init_loss_scaling = configs.init_loss_scaling,
          .incr_ratio = configs.incr_ratio,
          .decr_ratio = configs.decr_ratio,
          .incr_every_n_steps = configs.incr_every_n_steps,
          .decr_every_n_nan_or_inf = configs.decr_every_n_nan_or_inf,
          .use_dynamic_loss_scaling = configs.use_dynamic_loss_scaling},
      group);
}

// What dgc returns is divided by the number of merged batches, and multiplied
// by that of the ranks, where the strategy says so. Decay must not be.
double decay_factor(const DistributedStrategy& strategy, int num_ranks) {
  const optim::GradientMergeOptions merge = merge_of(strategy);
  const bool sums =
      strategy.gradient_scale_configs.scale_strategy.get() != "avg";
  return (merge.avg ? merge.k_steps : 1) / (sums ? num_ranks : 1.0);
}

DgcOptions dgc_of(
    const DistributedStrategy& strategy,
    const OptimizerReplacement& replacement,
    int num_ranks) {
  const auto& configs = strategy.dgc_configs;
  DgcOptions options;
  options.rampup_begin_step = configs.rampup_begin_step;
  options.rampup_step = configs.rampup_step;
  options.sparsity = configs.sparsity;
  options.momentum = *replacement.dgc_momentum;
  options.weight_decay = [decays = replacement.dgc_decays,
                          factor = decay_factor(strategy, num_ranks)](
                             const at::Tensor& parameter) {
    const auto found = decays.find(parameter.unsafeGetTensorImpl());
    return found == decays.end() ? 0 : factor * found->second;
  };
  if (strategy.grad_clip) {
    options.clip_norm = strategy.grad_clip_configs.limit;
  }
  return options;
}

NameOf names_in(const Registry& registry) {
  return [&registry](const at::Tensor& parameter) {
    return registry.name_of(parameter.unsafeGetTensorImpl());
  };
}

} // namespace

struct DistributedOptimizer::Impl final : public RegisteredOptimizer {
  Impl(
      Optimizer& given,
      const DistributedStrategy& its_strategy,
      const Axes& its_axes,
      std::shared_ptr<Registry> its_registry)
      : strategy(its_strategy),
        axes(its_axes),
        registry(std::move(its_registry)),
        replacement(replace_optimizer(
            given, strategy, names_in(*registry), axes.data->nranks())),
        optimizer(replacement.optimizer ? *replacement.optimizer : given),
        params(optim::params_of(optimizer)),
        ids(ids_of(params)),
        spread(SpreadOptimizer::make(optimizer, strategy, *axes.hybrid)),
        merge(optimizer, merge_of(strategy)),
        scaler(scaler_of(strategy, axes.world)) {
    if (spread) {
      params = optim::params_of(optimizer); // shards of the DTensors
    }
    ARGOSY_CHECK(
        !strategy.amp || !strategy.amp_configs.use_pure_bf16 ||
            dynamic_cast<optim::FusedOptimizer*>(&optimizer) != nullptr,
        "[fleet.distributed_optimizer] amp_configs.use_pure_bf16 needs master "
        "weights: use an optimizer of argosy::optim");
  }

  bool holds(ParameterId parameter) const override {
    return ids.count(parameter) > 0;
  }
  bool will_step() const override { return merge.will_step(); }
  bool is_merging() const override { return merge.is_merging(); }
  std::shared_ptr<data_parallel::BucketHook> hook() override {
    // Momentum moves from the optimizer into the compression.
    return replacement.dgc_momentum
        ? deep_gradient_compression(
              dgc_of(strategy, replacement, axes.data->nranks()))
        : nullptr;
  }

  void compress_with(
      const std::shared_ptr<data_parallel::BucketHook>& hook) override {
    compressions.push_back(hook);
  }

  void shard(const std::shared_ptr<sharding::ShardedCore>& core) override {
    sharded.emplace(optimizer, core);
    // ShardedOptimizer has replaced the parameters by this rank's shards.
    params = optim::params_of(optimizer);
  }

  void spread_over(const std::shared_ptr<SpreadCore>& core) override {
    spread_models.push_back(core);
  }

  void serve(const std::shared_ptr<PsModel>& model) override {
    ARGOSY_CHECK(
        !served,
        "[fleet.distributed_optimizer] an optimizer of two models on servers, "
        "expected one for each");
    model->start(optimizer);
    served = model;
    params = optim::params_of(optimizer); // what it still steps itself
  }

  void note_backward(const at::Tensor& loss);
  void check_backward() const;
  // Local SGD averages over the ranks that step on their own: with sharding,
  // those that hold the same shard.
  const GroupPtr& copies() const { return sharded ? axes.replicas : axes.data; }
  void make_averages();
  optim::Ema& moving_average();
  void tell_loss_scale() const;
  void settle_compressions(bool stepped) const;
  void reduce_spread_gradients();
  void sum_gradients();
  void clip_gradients();
  bool step_once();
  void average_parameters();

  // The members up to `scaler` are initialized from one another, in this order.
  const DistributedStrategy strategy;
  const Axes axes;
  const std::shared_ptr<Registry> registry;
  const OptimizerReplacement replacement;
  Optimizer& optimizer; // the given one or its replacement
  // What it steps; shards once a sharded model is linked.
  std::vector<at::Tensor> params;
  // Of the whole parameters, to find their model.
  const std::set<ParameterId> ids;
  std::optional<sharding::ShardedOptimizer> sharded;
  std::shared_ptr<PsModel> served;               // null: nothing is on servers
  const std::unique_ptr<SpreadOptimizer> spread; // null without DTensors
  std::vector<std::weak_ptr<SpreadCore>> spread_models;
  std::vector<std::weak_ptr<data_parallel::BucketHook>> compressions;
  optim::GradientMerge merge;
  const std::unique_ptr<optim::GradScaler> scaler;

  // Made at the first step, when parameters agree on all ranks: a model, which
  // broadcasts them, may be made after its optimizer.
  std::unique_ptr<optim::LocalSgd> local;
  std::unique_ptr<optim::AdaptiveLocalSgd> adaptive;
  std::unique_ptr<optim::Ema> ema;

  bool backward_done = false;
  double loss_sum = 0; // since the last step, for adaptive_localsgd
  int num_losses = 0;
};

void DistributedOptimizer::Impl::note_backward(const at::Tensor& loss) {
  backward_done = true;
  if (strategy.adaptive_localsgd) {
    loss_sum += loss.item<double>();
    ++num_losses;
  }
}

void DistributedOptimizer::Impl::check_backward() const {
  ARGOSY_CHECK(
      backward_done || !(strategy.amp || strategy.adaptive_localsgd),
      "[fleet.step] {}: call backward(loss) of the distributed optimizer "
      "before step()",
      strategy.amp ? "amp scales the loss"
                   : "adaptive_localsgd depends on the loss");
}

// Called before the first step, while parameters still agree on all ranks.
void DistributedOptimizer::Impl::make_averages() {
  if (strategy.localsgd && !local) {
    const auto& configs = strategy.localsgd_configs;
    local = std::make_unique<optim::LocalSgd>(
        params,
        optim::LocalSgdOptions{
            .k_steps = configs.k_steps, .begin_step = configs.begin_step},
        copies());
    local->average_states(
        [this](const GroupPtr& group) { average_states(optimizer, group); });
  }
  if (strategy.adaptive_localsgd && !adaptive) {
    const auto& configs = strategy.adaptive_localsgd_configs;
    adaptive = std::make_unique<optim::AdaptiveLocalSgd>(
        params,
        optim::AdaptiveLocalSgdOptions{
            .init_k_steps = configs.init_k_steps,
            .begin_step = configs.begin_step},
        copies(),
        axes.data);
    adaptive->average_states(
        [this](const GroupPtr& group) { average_states(optimizer, group); });
  }
  if (strategy.ema) {
    moving_average();
  }
}

optim::Ema& DistributedOptimizer::Impl::moving_average() {
  if (!ema) {
    const auto& configs = strategy.ema_configs;
    ema = std::make_unique<optim::Ema>(
        spread ? spread->locals() : params,
        optim::EmaOptions{
            .decay = configs.decay,
            .bias_correction = configs.bias_correction});
  }
  return *ema;
}

void DistributedOptimizer::Impl::tell_loss_scale() const {
  for (const auto& each : compressions) {
    if (const auto hook = each.lock(); hook && scaler) {
      hook->set_loss_scale(scaler->loss_scaling());
    }
  }
}

void DistributedOptimizer::Impl::settle_compressions(bool stepped) const {
  for (const auto& each : compressions) {
    if (const auto hook = each.lock()) {
      hook->settle(stepped);
    }
  }
}

void DistributedOptimizer::Impl::reduce_spread_gradients() {
  for (const auto& each : spread_models) {
    if (const auto model = each.lock()) {
      model->compress_gradients([this](const at::Tensor& parameter) {
        return holds(parameter.unsafeGetTensorImpl());
      });
    }
  }
  spread->reduce_gradients();
}

// Models compute averages, so a sum is the average times the number of ranks.
void DistributedOptimizer::Impl::sum_gradients() {
  const bool sums =
      strategy.gradient_scale_configs.scale_strategy.get() != "avg";
  if (sums && axes.data->nranks() > 1) {
    optim::scale_grads(params, axes.data->nranks());
  }
}

void DistributedOptimizer::Impl::clip_gradients() {
  // dgc clips each rank's gradients itself, before compressing them.
  if (!strategy.grad_clip || replacement.dgc_momentum) {
    return;
  }
  if (scaler) {
    // The limit applies to true gradients, not to those of the scaled loss.
    scaler->unscale_(optimizer);
  }
  const auto& configs = strategy.grad_clip_configs;
  if (configs.by.get() == "norm" && spread) {
    spread->clip_norm(configs.limit);
  } else if (configs.by.get() == "norm") {
    clip_model_grad_norm(params, configs.limit, axes);
  } else {
    optim::clip_grad_value_(params, configs.limit);
  }
}

// Returns false if the loss scaler skipped the step.
bool DistributedOptimizer::Impl::step_once() {
  if (served) {
    served->step(optimizer);
    return true;
  }
  // Gradients must be complete before clipping takes their norm.
  sum_sequence_parallel_grads(params, axes);
  sum_gradients();
  clip_gradients();
  if (sharded) {
    sharded->core()->before_step();
  }
  bool stepped = true;
  if (scaler) {
    stepped = scaler->step(optimizer);
    settle_compressions(stepped);
    // After step(), which finds out whether gradients are finite.
    scaler->update();
  } else {
    optimizer.step();
  }
  if (spread && stepped) {
    spread->update_parameters();
  }
  if (strategy.hybrid_configs.sync_param && !spread) {
    broadcast_replicated_params(params, axes);
  }
  // Before after_step(), which gathers the shards.
  if (stepped) {
    average_parameters();
  }
  if (sharded) {
    sharded->core()->after_step();
  }
  return stepped;
}

void DistributedOptimizer::Impl::average_parameters() {
  bool averaged = false;
  if (local) {
    averaged = local->step();
  }
  if (adaptive) {
    averaged = adaptive->step(
        loss_sum / num_losses,
        optimizer.param_groups().front().options().get_lr());
  }
  if (ema) {
    ema->update();
  }
  // Until then the moving averages are those of each rank's own model.
  if (ema && averaged) {
    ema->average_ranks(copies());
  }
}

DistributedOptimizer::DistributedOptimizer(
    Optimizer& optimizer,
    const DistributedStrategy& strategy,
    const Axes& axes,
    std::shared_ptr<Registry> registry)
    : impl_(std::make_shared<Impl>(
          optimizer, strategy, axes, std::move(registry))) {
  // The registry keeps a weak reference; moving this object keeps impl_.
  impl_->registry->add(impl_);
}

DistributedOptimizer::~DistributedOptimizer() = default;
DistributedOptimizer::DistributedOptimizer(DistributedOptimizer&&) noexcept =
    default;

void DistributedOptimizer::zero_grad() {
  impl_->merge.zero_grad();
  if (impl_->spread && !impl_->merge.is_merging()) {
    impl_->spread->zero_grad();
  }
  // The model's whole gradients are not among the optimizer's parameters.
  if (impl_->sharded && !impl_->merge.is_merging()) {
    impl_->sharded->zero_grad();
  }
}

void DistributedOptimizer::backward(const at::Tensor& loss) {
  {
    // Code inside backward, such as gradient compression, reads the scale here.
    const training::LossScale scale(scaled(at::ones({})).item<double>());
    scaled(loss).backward();
  }
  after_backward(loss);
}

at::Tensor DistributedOptimizer::scaled(const at::Tensor& loss) const {
  impl_->tell_loss_scale(); // a checkpoint may have changed it, too
  return impl_->scaler ? impl_->scaler->scale(loss) : loss;
}

void DistributedOptimizer::after_backward(const at::Tensor& loss) {
  impl_->note_backward(loss);
}

bool DistributedOptimizer::step() {
  Impl& impl = *impl_;
  impl.check_backward();
  impl.make_averages();
  impl.backward_done = false;
  bool stepped = false;
  if (impl.spread && impl.merge.will_step()) {
    impl.reduce_spread_gradients(); // before the merge divides them
  }
  const bool due = impl.merge.step([&] { stepped = impl.step_once(); });
  // Also after a step that amp skipped: the next one begins anew.
  if (due) {
    impl.loss_sum = 0;
    impl.num_losses = 0;
  }
  // Last: whether the next backward reduces gradients depends on how many
  // batches have been merged.
  impl.registry->update_sync();
  return stepped;
}

double DistributedOptimizer::get_lr() const {
  return impl_->optimizer.param_groups().front().options().get_lr();
}

void DistributedOptimizer::set_lr(double lr) {
  for (auto& group : impl_->optimizer.param_groups()) {
    group.options().set_lr(lr);
  }
}

Optimizer& DistributedOptimizer::optimizer() {
  return impl_->optimizer;
}

optim::GradScaler* DistributedOptimizer::scaler() {
  return impl_->scaler.get();
}

optim::Ema* DistributedOptimizer::ema() {
  return impl_->strategy.ema ? &impl_->moving_average() : nullptr;
}

optim::LocalSgd* DistributedOptimizer::local_sgd() {
  impl_->make_averages();
  return impl_->local.get();
}

optim::AdaptiveLocalSgd* DistributedOptimizer::adaptive_local_sgd() {
  impl_->make_averages();
  return impl_->adaptive.get();
}

void DistributedOptimizer::average() {
  Impl& impl = *impl_;
  if (!impl.local && !impl.adaptive) {
    return; // there was no step
  }
  if (impl.sharded) {
    impl.sharded->core()->before_step();
  }
  impl.local ? impl.local->average() : impl.adaptive->average();
  if (impl.sharded) {
    impl.sharded->core()->after_step();
  }
}

const DistributedStrategy& DistributedOptimizer::strategy() const {
  return impl_->strategy;
}

} // namespace argosy::fleet
