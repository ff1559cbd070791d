#include "argosy/semi_auto/shard_optimizer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/optimizer.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <utility>
#include <vector>

#include "argosy/common/error.h"
#include "argosy/dtensor/dtensor.h"
#include "argosy/dtensor/tensor/gather_ahead.h"
#include "argosy/optim/fused.h"
#include "argosy/optim/lamb.h"
#include "argosy/optim/lars.h"
#include "argosy/semi_auto/accumulators.h"
#include "argosy/semi_auto/gather_buckets.h"
#include "argosy/semi_auto/offloaded_parts.h"
#include "argosy/torch_hooks/grad_hook.h"
#include "argosy/training/held_part.h"
#include "argosy/world/init.h"

namespace argosy {

namespace {

template <typename... Types>
bool is_one_of(const torch::optim::Optimizer& optimizer) {
  return (... || (dynamic_cast<const Types*>(&optimizer) != nullptr));
}

// Whether the update of an element depends on that element only.
// Such an optimizer can work on local shards as plain tensors, without the cost
// of DTensor dispatch. LAMB and LARS need norms of whole parameters, and of
// optimizers that are not listed nothing is known: these hold DTensors.
bool is_elementwise(const torch::optim::Optimizer& optimizer) {
  return is_one_of<
             torch::optim::SGD,
             torch::optim::Adam,
             torch::optim::AdamW,
             torch::optim::Adagrad,
             torch::optim::RMSprop,
             optim::FusedOptimizer>(optimizer) &&
      !is_one_of<optim::Lamb, optim::Lars>(optimizer);
}

// A parameter and the tensor that the optimizer holds instead of it.
struct OptimizedParameter {
  at::Tensor parameter;
  Placements placements; // of the optimizer state, and of gradients in step()
  at::Tensor shard;      // what the optimizer holds
  bool is_plain = false;
  bool has_placed_states = false; // by a ShardAccumulatorFn

  ProcessMesh mesh() const { return process_mesh_of(parameter); }
  bool is_in_place() const { return placements == placements_of(parameter); }

  // A state of the parameter, whole or a DTensor, as the optimizer is to have
  // it.
  at::Tensor state_of(const at::Tensor& state) const {
    const at::Tensor placed = is_dtensor(state)
        ? reshard(state.detach(), mesh(), placements)
        : shard_tensor(state.detach(), mesh(), placements);
    return is_plain ? to_local(placed).clone() : placed;
  }

  void make_shard() {
    const at::Tensor moved = is_in_place()
        ? parameter
        : reshard(parameter.detach(), mesh(), placements);
    shard = is_plain ? to_local(moved.detach()) : moved;
    if (shard.unsafeGetTensorImpl() != parameter.unsafeGetTensorImpl()) {
      training::set_shard_of(
          shard,
          parameter,
          dtensor::local_box(
              parameter.sizes().vec(),
              DistAttr(mesh(), placements),
              get_rank()));
    }
  }

  // The parameter's own gradient is resharded too, and shares its storage with
  // the optimizer's, so that unscaling or clipping one changes both.
  // Comes before every step. With a Partial gradient this is the reduce-scatter
  // (or the all_reduce, where the state is not sharded) of data parallelism.
  void reshard_gradient(const SentGradients& sent) {
    at::Tensor& gradient = shard.mutable_grad();
    at::Tensor& own = parameter.mutable_grad();
    if (!own.defined()) {
      gradient.reset();
      return;
    }
    own = semi_auto::reduced(own, placements, sent);
    gradient = is_plain ? to_local(own) : own;
  }

  // The counterpart: where the state is sharded and the parameter is not,
  // copy_() gathers the updated shards on all ranks.
  void update_parameter() {
    if (is_in_place()) {
      return;
    }
    const at::Tensor whole = is_plain
        ? from_local(shard, mesh(), placements, parameter.sizes().vec())
        : shard;
    parameter.copy_(whole);
  }
};

void check_parameter(const at::Tensor& parameter, const ProcessMesh& mesh) {
  ARGOSY_CHECK(
      is_dtensor(parameter),
      "[shard_optimizer] a parameter of shape {} is a plain tensor, expected a "
      "DTensor; see shard_layer()",
      parameter.sizes());
  ARGOSY_CHECK(
      process_mesh_of(parameter) == mesh,
      "[shard_optimizer] parameters on two meshes, {} and {}",
      process_mesh_of(parameter),
      mesh);
}

// What shard_fn makes of an accumulator.
at::Tensor placed_by(
    const ShardAccumulatorFn& shard_fn,
    const std::string& name,
    const at::Tensor& parameter,
    const at::Tensor& accumulator) {
  at::Tensor placed = shard_fn(name, parameter, accumulator);
  ARGOSY_CHECK(
      placed.defined() && is_dtensor(placed) &&
          placed.sizes() == accumulator.sizes() &&
          placed.scalar_type() == accumulator.scalar_type() &&
          process_mesh_of(placed) == process_mesh_of(parameter) &&
          !has_partial(placements_of(placed)),
      "[shard_optimizer] shard_fn returns another tensor for {} of a parameter "
      "of shape {}, expected the accumulator, on the mesh of the parameter, in "
      "Shard and Replicate",
      name,
      parameter.sizes());
  return placed;
}

// Of all accumulators of a parameter, for a kernel that takes them together.
Placements common_placements(
    const std::vector<std::string>& names,
    const at::Tensor& parameter,
    const ShardAccumulatorFn& shard_fn) {
  Placements common = placements_of(parameter);
  for (const std::string& name : names) {
    const Placements placements = placements_of(
        placed_by(shard_fn, name, parameter, at::zeros_like(parameter)));
    ARGOSY_CHECK(
        name == names.front() || placements == common,
        "[shard_optimizer] shard_fn places {} of a parameter of shape {} in {} "
        "and {} in {}: an optimizer of argosy::optim updates both in one pass, "
        "expected the same placements, or an optimizer of torch::optim",
        names.front(),
        parameter.sizes(),
        common,
        name,
        placements);
    common = placements;
  }
  return common;
}

ProcessMesh mesh_of(const torch::optim::Optimizer& optimizer) {
  for (const auto& group : optimizer.param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      if (is_dtensor(parameter)) {
        return process_mesh_of(parameter);
      }
    }
  }
  throw InvalidArgument(
      "[shard_optimizer] none of the parameters is a DTensor; see "
      "shard_layer()");
}

} // namespace

struct ShardOptimizer::Impl {
  torch::optim::Optimizer& optimizer;
  const ProcessMesh mesh;
  std::vector<OptimizedParameter> parameters;
  std::vector<torch_hooks::GradHook> hooks;
  std::shared_ptr<dtensor::GatherAhead> ahead; // stage 3
  ShardAccumulatorFn shard_accumulator;        // null: states are the shards'
  SentGradients sent = {};
  std::optional<semi_auto::OffloadedParts> offloaded_parameters = {};
  std::optional<semi_auto::OffloadedParts> offloaded_gradients = {};

  using PlacementsFn = std::function<Placements(
      const at::Tensor& parameter, const torch::optim::OptimizerOptions&)>;

  // Replaces all parameters by what the optimizer holds instead, and places the
  // states that it has.
  void add_all(int stage, const PlacementsFn& placements) {
    ARGOSY_CHECK(
        !semi_auto::has_unknown_states(optimizer),
        "[shard_optimizer] the optimizer has stepped, and is none of SGD, "
        "Adam, "
        "AdamW, Adagrad, RMSprop and those of argosy::optim, whose states can "
        "be sharded then; shard it before its first step");
    const at::NoGradGuard no_grad;
    auto* const fused = dynamic_cast<optim::FusedOptimizer*>(&optimizer);
    const optim::StateDict states =
        fused != nullptr ? fused->state_dict() : optim::StateDict();
    for (auto& group : optimizer.param_groups()) {
      for (at::Tensor& parameter : group.params()) {
        check_parameter(parameter, mesh);
        const std::string key = semi_auto::state_key(parameter);
        add(parameter, stage, placements(parameter, group.options()));
        if (fused == nullptr) {
          take_state(group.options(), key);
        }
      }
    }
    if (!states.empty()) {
      fused->load_state_dict(sharded(states));
    }
  }

  // Of the parameter that was added last: the state that the optimizer has for
  // it under `key`; its constructor may make states, as Adagrad's does. Where
  // accumulators are placed one by one they are made here, so that none is ever
  // somewhere else.
  void take_state(
      const torch::optim::OptimizerOptions& options, const std::string& key) {
    OptimizedParameter& held = parameters.back();
    auto& states = optimizer.state();
    std::unique_ptr<torch::optim::OptimizerParamState> state;
    if (const auto found = states.find(key); found != states.end()) {
      state = std::move(found->second);
      states.erase(found);
      for (const auto& [name, tensor] : semi_auto::accumulators_of(*state)) {
        *tensor = held.state_of(*tensor);
      }
    } else if (shard_accumulator) {
      state = semi_auto::new_state(options, held.shard);
    }
    if (state) {
      states[semi_auto::state_key(held.shard)] = std::move(state);
      place_accumulators(held);
    }
  }

  // The states of a FusedOptimizer, by "<number of the parameter>.<kind>".
  optim::StateDict sharded(const optim::StateDict& states) const {
    optim::StateDict result;
    for (const auto& [name, tensor] : states) {
      const OptimizedParameter& held = parameters.at(std::stoul(name));
      const bool is_count = tensor.dim() == 0 && name.ends_with(".step");
      result[name] = is_count ? tensor : held.state_of(tensor);
    }
    return result;
  }

  // Once for each parameter, as soon as it has a state.
  void place_accumulators(OptimizedParameter& held) {
    if (!shard_accumulator || held.has_placed_states) {
      return;
    }
    const auto found = optimizer.state().find(semi_auto::state_key(held.shard));
    if (found == optimizer.state().end()) {
      return;
    }
    for (const auto& [name, tensor] :
         semi_auto::accumulators_of(*found->second)) {
      *tensor = placed_by(shard_accumulator, name, held.parameter, *tensor);
    }
    held.has_placed_states = true;
  }

  // Stage 1 shards the state alone, stage 2 also gradients, stage 3 also the
  // parameters. `parameter` is the optimizer's own handle, which add() replaces
  // by the shard; the model's handle goes on to refer to the parameter.
  void add(at::Tensor& parameter, int stage, const Placements& placements) {
    OptimizedParameter held{
        .parameter = parameter,
        .placements = placements,
        .is_plain = is_elementwise(optimizer) && !shard_accumulator};
    if (stage == 3) {
      shard_tensor_(parameter, held.mesh(), held.placements);
    }
    if (offloaded_parameters) {
      offloaded_parameters->move(parameter);
    }
    held.make_shard();
    if (stage >= 2 && parameter.requires_grad()) {
      shard_gradients(held);
    }
    parameter = held.shard; // replaces the optimizer's handle
    parameters.push_back(std::move(held));
  }

  void gather_ahead(int axis, std::size_t bucket_bytes);

  // Stage 2: reshards each gradient as soon as backward has computed it.
  void shard_gradients(const OptimizedParameter& held) {
    hooks.emplace_back(
        held.parameter,
        [this, parameter = held.parameter, placements = held.placements] {
          const at::NoGradGuard no_grad;
          at::Tensor& gradient = parameter.mutable_grad();
          // Collective, in the order in which backward reaches the parameters.
          gradient = semi_auto::reduced(gradient, placements, sent);
          if (offloaded_gradients) {
            offloaded_gradients->take(gradient, parameter);
          }
        });
  }
};

ShardOptimizer::ShardOptimizer(
    torch::optim::Optimizer& optimizer,
    ShardingStage stage,
    const OffloadedShards& offloaded)
    : impl_(new Impl{optimizer, mesh_of(optimizer), {}, {}, nullptr, {}}) {
  ARGOSY_CHECK(
      (!offloaded.parameters || stage.stage == 3) &&
          (!offloaded.gradients || stage.stage >= 2),
      "[shard_optimizer] stage {} keeps whole {}, expected stage {} to offload "
      "them",
      stage.stage,
      offloaded.parameters ? "parameters" : "gradients",
      offloaded.parameters ? "3" : "2 or 3");
  if (offloaded.parameters) {
    impl_->offloaded_parameters.emplace(*offloaded.parameters);
  }
  if (offloaded.gradients) {
    impl_->offloaded_gradients.emplace(*offloaded.gradients);
  }
  const ProcessMesh& mesh = impl_->mesh;
  const int axis = stage.stage == 0 ? 0 : semi_auto::sharding_axis(stage, mesh);
  impl_->add_all(stage.stage, [&](const at::Tensor& parameter, const auto&) {
    const Placements now = placements_of(parameter);
    return stage.stage == 0
        ? now
        : semi_auto::sharded_over(now, axis, parameter.sizes().vec());
  });
  if (stage.stage == 3 && stage.bucket_bytes > 0) {
    impl_->gather_ahead(axis, stage.bucket_bytes);
  }
}

ShardOptimizer::ShardOptimizer(
    torch::optim::Optimizer& optimizer, const ShardStatesFn& shard_fn)
    : impl_(new Impl{optimizer, mesh_of(optimizer), {}, {}, nullptr, {}}) {
  impl_->add_all(1, [&](const at::Tensor& parameter, const auto&) {
    const Placements placements = normalized(
        shard_fn(parameter),
        static_cast<int>(parameter.dim()),
        impl_->mesh.ndim());
    ARGOSY_CHECK(
        !has_partial(placements),
        "[shard_optimizer] shard_fn gives {} for a parameter of shape {}, "
        "expected Shard and Replicate",
        placements,
        parameter.sizes());
    return placements;
  });
}

ShardOptimizer::ShardOptimizer(
    torch::optim::Optimizer& optimizer, const ShardAccumulatorFn& shard_fn)
    : impl_(new Impl{optimizer, mesh_of(optimizer), {}, {}, nullptr, {}}) {
  if (const auto* fused =
          dynamic_cast<const optim::FusedOptimizer*>(&optimizer)) {
    impl_->add_all(1, [&](const at::Tensor& parameter, const auto& options) {
      return common_placements(
          fused->state_kinds(options), parameter, shard_fn);
    });
    return;
  }
  ARGOSY_CHECK(
      semi_auto::has_known_accumulators(optimizer),
      "[shard_optimizer] a shard_fn for each accumulator of an optimizer that "
      "is none of SGD, Adam, AdamW, Adagrad, RMSprop and those of "
      "argosy::optim: give one for each parameter, which takes the parameter "
      "alone");
  impl_->shard_accumulator = shard_fn;
  impl_->add_all(0, [](const at::Tensor& parameter, const auto&) {
    return placements_of(parameter);
  });
}

// All parameters of a model in use are of one mesh.
void ShardOptimizer::Impl::gather_ahead(int axis, std::size_t bucket_bytes) {
  Tensors all;
  for (const OptimizedParameter& held : parameters) {
    all.push_back(held.parameter);
  }
  ahead = std::make_shared<dtensor::GatherAhead>(
      semi_auto::buckets_of(all, bucket_bytes), axis);
  dtensor::mesh_state(mesh)->add_gather_ahead(ahead);
}

ShardOptimizer::~ShardOptimizer() = default;
ShardOptimizer::ShardOptimizer(ShardOptimizer&&) noexcept = default;

void ShardOptimizer::send_gradients(SentGradients sent) {
  impl_->sent = std::move(sent);
}

void ShardOptimizer::step() {
  reshard_gradients();
  impl_->optimizer.step();
  update_parameters();
}

void ShardOptimizer::reshard_gradients() {
  const at::NoGradGuard no_grad;
  for (OptimizedParameter& held : impl_->parameters) {
    held.reshard_gradient(impl_->sent);
  }
}

void ShardOptimizer::update_parameters() {
  const at::NoGradGuard no_grad;
  const dtensor::TrustedValues equal; // ranks step copies of a shard alike
  if (impl_->ahead) {
    impl_->ahead->release(); // the shards have changed
  }
  for (OptimizedParameter& held : impl_->parameters) {
    if (held.shard.unsafeGetTensorImpl() !=
        held.parameter.unsafeGetTensorImpl()) {
      // Frees the handle early: the parameter's own gradient keeps the memory
      // until zero_grad().
      held.shard.mutable_grad().reset();
    }
    held.update_parameter();
    impl_->place_accumulators(held);
  }
  if (impl_->offloaded_parameters) {
    impl_->offloaded_parameters->let_go();
  }
}

void ShardOptimizer::zero_grad() {
  for (OptimizedParameter& held : impl_->parameters) {
    held.parameter.mutable_grad().reset();
  }
}

torch::optim::Optimizer& ShardOptimizer::optimizer() {
  return impl_->optimizer;
}

const ProcessMesh& ShardOptimizer::mesh() const {
  return impl_->mesh;
}

} // namespace argosy
