#include "argosy/fleet/spread_model.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>

#include <algorithm>

#include "argosy/common/error.h"
#include "argosy/dtensor/dtensor.h"
#include "argosy/dtensor/tensor/tensor.h"
#include "argosy/fleet/axes.h"
#include "argosy/fleet/compression_of.h"
#include "argosy/fleet/registry.h"
#include "argosy/fleet/strategy.h"
#include "argosy/torch_hooks/graph_node.h"
#include "argosy/torch_hooks/wrapper_tensor.h"

namespace argosy::fleet {

namespace {

Placements batch_on(const ProcessMesh& mesh) {
  Placements placements(static_cast<std::size_t>(mesh.ndim()), Replicate());
  for (const int axis : data_axes(mesh)) {
    placements[static_cast<std::size_t>(axis)] = Shard(0);
  }
  return placements;
}

std::int64_t parts_on(const ProcessMesh& mesh) {
  std::int64_t parts = 1;
  for (const int axis : data_axes(mesh)) {
    parts *= mesh.get_dim_size(axis);
  }
  return parts;
}

ProcessMesh stage_mesh() {
  return current_hybrid_mesh()->mesh();
}

template <typename Visit>
void for_each_state(const torch::nn::Module& module, const Visit& visit) {
  for (const auto& each : module.named_parameters(true)) {
    if (each.value().defined()) {
      visit(each.key(), each.value());
    }
  }
  for (const auto& each : module.named_buffers(true)) {
    if (each.value().defined()) {
      visit(each.key(), each.value());
    }
  }
}

void check_mesh(const torch::nn::Module& module, const ProcessMesh& mesh) {
  for_each_state(module, [&](const std::string& name, const at::Tensor& each) {
    ARGOSY_CHECK(
        is_dtensor(each) && process_mesh_of(each) == mesh,
        "[fleet.distributed_model] {} is {}, expected a DTensor on {}: call "
        "parallelize(model, fleet::hybrid_mesh()->mesh(), config)",
        name,
        is_dtensor(each) ? str("on ", process_mesh_of(each)) : "a plain tensor",
        mesh);
  });
}

void check_settings(const DistributedStrategy& strategy, const Axes& axes) {
  const std::pair<bool, const char*> without_meaning[] = {
      {strategy.localsgd,
       "localsgd: ranks have parts of one model, not copies "
       "that could differ between two averages"},
      {strategy.adaptive_localsgd,
       "adaptive_localsgd: ranks have parts of one model, not copies that "
       "could differ between two averages"},
      {axes.hybrid->size_on("sep") > 1,
       "hybrid_configs.sep_degree: cut sequences with the plans "
       "SequenceParallelBegin and SequenceParallelEnd on mp"}};
  for (const auto& [is_set, why] : without_meaning) {
    ARGOSY_CHECK(
        !is_set,
        "[fleet.distributed_model] a model of DTensors (parallelize()) does "
        "not take {}",
        why);
  }
}

// Keeps the handle, as other optimizers and modules hold it, and the hooks of
// plans.
void cast_to_bfloat16(const at::Tensor& tensor) {
  if (!tensor.is_floating_point()) {
    return;
  }
  const at::NoGradGuard no_grad;
  const auto hooks = dtensor::parts_of(tensor)->hooks;
  torch_hooks::become(tensor, tensor.detach().to(at::kBFloat16));
  if (hooks != nullptr) {
    dtensor::set_hooks(tensor, hooks);
  }
}

} // namespace

bool is_spread(const torch::nn::Module& module) {
  const auto parameters = module.parameters();
  return std::ranges::any_of(
      parameters, [](const at::Tensor& each) { return is_dtensor(each); });
}

// sync_batch_norm needs nothing: a DTensor's statistics are those of the whole
// batch.
ModelSetup prepare_spread_model(
    torch::nn::Module& module,
    const DistributedStrategy& strategy,
    const Axes& axes,
    std::shared_ptr<Registry> registry) {
  check_settings(strategy, axes);
  check_mesh(module, axes.hybrid->mesh());
  if (strategy.amp && strategy.amp_configs.use_pure_bf16) {
    for_each_state(module, [&](const auto& name, const at::Tensor& each) {
      ARGOSY_CHECK(
          !registry->is_held(each.unsafeGetTensorImpl()),
          "[fleet.distributed_model] an optimizer has shards of {} already, "
          "which amp_configs.use_pure_bf16 would cast: call "
          "distributed_model() before distributed_optimizer()",
          name);
      cast_to_bfloat16(each);
    });
  }
  ModelSetup setup;
  setup.spread.emplace();
  setup.spread->sent_type = sent_type_of(strategy);
  setup.spread->main_grad = has_main_grads(strategy);
  setup.spread->hook = power_sgd_of(strategy);
  if (strategy.dgc) {
    setup.hook = std::make_shared<DeferredHook>();
    setup.spread->hook = setup.hook;
  }
  setup.autocast = strategy.amp;
  setup.autocast_lists = autocast_lists(strategy);
  setup.registry = std::move(registry);
  return setup;
}

SpreadCore::SpreadCore(torch::nn::Module& module, const SpreadSetup& setup)
    : mesh_(stage_mesh()),
      batch_(batch_on(mesh_)),
      num_parts_(parts_on(mesh_)),
      parameters_(module.parameters()),
      buffers_(module.buffers()),
      sent_{setup.sent_type, data_axes(mesh_)} {
  if (setup.main_grad) {
    main_grads_.emplace(parameters_);
  }
  if (setup.hook != nullptr && num_parts_ > 1) {
    compressed_.emplace(module, setup.hook, current_hybrid_mesh());
  }
}

void SpreadCore::zero_grad() {
  for (const at::Tensor& each : parameters_) {
    each.mutable_grad().reset();
  }
}

void SpreadCore::reduce_gradients() {
  if (compressed_) {
    return; // the optimizer does, once for each step
  }
  const at::NoGradGuard no_grad;
  for (const at::Tensor& each : parameters_) {
    if (each.grad().defined()) {
      each.mutable_grad() = semi_auto::reduced(
          each.grad(), gradient_placements(placements_of(each)), sent_);
    }
  }
}

void SpreadCore::compress_gradients(
    const std::function<bool(const at::Tensor&)>& is_wanted) {
  if (compressed_) {
    compressed_->reduce(is_wanted);
  }
}

training::ModelCore::Memory SpreadCore::memory() const {
  return compressed_ ? compressed_->memory() : Memory();
}

void SpreadCore::set_memory(const Memory& memory) {
  if (compressed_) {
    compressed_->set_memory(memory);
  }
}

void SpreadCore::begin_whole() {
  const at::NoGradGuard no_grad;
  for (const auto* list : {&parameters_, &buffers_}) {
    for (const at::Tensor& each : *list) {
      spread_.push_back(torch_hooks::alias_of(each));
      torch_hooks::become(each, full_tensor(each.detach()).clone());
    }
  }
}

void SpreadCore::end_whole() {
  const at::NoGradGuard no_grad;
  const dtensor::TrustedValues equal; // a destructor calls this
  auto held = spread_.begin();
  for (const auto* list : {&parameters_, &buffers_}) {
    for (const at::Tensor& each : *list) {
      // Into the memory that was there: the optimizer holds parts of it.
      held->copy_(each.detach());
      torch_hooks::become(each, *held++);
    }
  }
  spread_.clear();
}

at::Tensor SpreadCore::enter(const at::Tensor& part) const {
  return from_local(part, mesh_, batch_);
}

at::Tensor SpreadCore::leave(const at::Tensor& output) const {
  if (output.dim() == 0) {
    return full_tensor(output);
  }
  return torch_hooks::apply(
      to_local(reshard(output, mesh_, batch_)),
      [](const at::Tensor& part) { return part.detach(); },
      [parts = num_parts_](const at::Tensor& grad) { return grad / parts; });
}

std::shared_ptr<SpreadCore> detail::as_spread(
    const std::shared_ptr<training::ModelCore>& core) {
  return std::dynamic_pointer_cast<SpreadCore>(core);
}

bool detail::enter(const SpreadCore& core, at::Tensor& input) {
  if (!input.defined() || input.dim() == 0 || is_dtensor(input)) {
    return false;
  }
  input = core.enter(input);
  return true;
}

void detail::leave(const SpreadCore& core, at::Tensor& output) {
  if (output.defined() && is_dtensor(output)) {
    output = core.leave(output);
  }
}

} // namespace argosy::fleet
