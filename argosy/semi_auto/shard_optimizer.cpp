#include "argosy/semi_auto/shard_optimizer.h"

#include <ATen/core/grad_mode.h>
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
#include "argosy/semi_auto/gather_buckets.h"
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

  ProcessMesh mesh() const { return process_mesh_of(parameter); }
  bool is_in_place() const { return placements == placements_of(parameter); }

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
  void reshard_gradient() {
    at::Tensor& gradient = shard.mutable_grad();
    at::Tensor& own = parameter.mutable_grad();
    if (!own.defined()) {
      gradient.reset();
      return;
    }
    own = reshard(own, mesh(), placements);
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

  // Replaces all parameters by what the optimizer holds instead.
  void add_all(int stage, const ShardStatesFn& placements) {
    ARGOSY_CHECK(
        // torch keys the state by the address of the tensor, which add()
        // replaces.
        optimizer.state().empty(),
        "[shard_optimizer] the optimizer has already stepped; shard it before "
        "its first step");
    const at::NoGradGuard no_grad;
    for (auto& group : optimizer.param_groups()) {
      for (at::Tensor& parameter : group.params()) {
        check_parameter(parameter, mesh);
        add(parameter, stage, placements(parameter));
      }
    }
  }

  // Stage 1 shards the state alone, stage 2 also gradients, stage 3 also the
  // parameters. `parameter` is the optimizer's own handle, which add() replaces
  // by the shard; the model's handle goes on to refer to the parameter.
  void add(at::Tensor& parameter, int stage, const Placements& placements) {
    OptimizedParameter held{
        .parameter = parameter,
        .placements = placements,
        .is_plain = is_elementwise(optimizer)};
    if (stage == 3) {
      shard_tensor_(parameter, held.mesh(), held.placements);
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
        [parameter = held.parameter, placements = held.placements] {
          at::Tensor& gradient = parameter.mutable_grad();
          // Collective, in the order in which backward reaches the parameters.
          gradient = reshard(gradient, process_mesh_of(gradient), placements);
        });
  }
};

ShardOptimizer::ShardOptimizer(
    torch::optim::Optimizer& optimizer, ShardingStage stage)
    : impl_(new Impl{optimizer, mesh_of(optimizer), {}, {}, nullptr}) {
  const ProcessMesh& mesh = impl_->mesh;
  const int axis = stage.stage == 0 ? 0 : semi_auto::sharding_axis(stage, mesh);
  impl_->add_all(stage.stage, [&](const at::Tensor& parameter) {
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
    : impl_(new Impl{optimizer, mesh_of(optimizer), {}, {}, nullptr}) {
  impl_->add_all(1, [&](const at::Tensor& parameter) {
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

void ShardOptimizer::step() {
  reshard_gradients();
  impl_->optimizer.step();
  update_parameters();
}

void ShardOptimizer::reshard_gradients() {
  const at::NoGradGuard no_grad;
  for (OptimizedParameter& held : impl_->parameters) {
    held.reshard_gradient();
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
