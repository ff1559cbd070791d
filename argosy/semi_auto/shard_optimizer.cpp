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
#include "argosy/optim/fused.h"
#include "argosy/optim/lamb.h"
#include "argosy/optim/lars.h"
#include "argosy/training/grad_hook.h"

namespace argosy {

namespace {

template <typename... Types>
bool is_one_of(const torch::optim::Optimizer& optimizer) {
  return (... || (dynamic_cast<const Types*>(&optimizer) != nullptr));
}

// Whether the step of an element depends on nothing but that element.
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

// A parameter, and what the optimizer has in its place.
struct Slot {
  at::Tensor parameter;
  Placements placements; // of states, and of gradients in a step
  at::Tensor part;       // the optimizer's
  bool is_plain = false;

  ProcessMesh mesh() const { return process_mesh_of(parameter); }
  bool is_in_place() const { return placements == placements_of(parameter); }

  void make_part() {
    const at::Tensor moved = is_in_place()
        ? parameter
        : reshard(parameter.detach(), mesh(), placements);
    part = is_plain ? to_local(moved.detach()) : moved;
  }

  // The parameter's own goes along: what is done to one shows in the other.
  void take_gradient() {
    at::Tensor& gradient = part.mutable_grad();
    at::Tensor& own = parameter.mutable_grad();
    if (!own.defined()) {
      gradient.reset();
      return;
    }
    own = reshard(own, mesh(), placements);
    gradient = is_plain ? to_local(own) : own;
  }

  void give_back() {
    if (is_in_place()) {
      return;
    }
    const at::Tensor whole = is_plain
        ? from_local(part, mesh(), placements, parameter.sizes().vec())
        : part;
    parameter.copy_(whole);
  }
};

void check_parameter(const at::Tensor& parameter, const ProcessMesh& mesh) {
  ARGOSY_CHECK(
      is_dtensor(parameter),
      "[shard_optimizer] a parameter of shape ",
      parameter.sizes(),
      " is a plain tensor, expected a DTensor; see shard_layer()");
  ARGOSY_CHECK(
      process_mesh_of(parameter) == mesh,
      "[shard_optimizer] parameters on two meshes, ",
      process_mesh_of(parameter),
      " and ",
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
  std::vector<Slot> slots;
  std::vector<training::GradHook> hooks;

  void add(at::Tensor& parameter, int axis, const ShardingStage& stage) {
    Slot slot{
        .parameter = parameter,
        .placements = placements_of(parameter),
        .is_plain = is_elementwise(optimizer)};
    if (stage.stage > 0) {
      slot.placements = semi_auto::sharded_over(
          slot.placements, axis, parameter.sizes().vec());
    }
    if (stage.stage == 3) {
      shard_tensor_(parameter, slot.mesh(), slot.placements);
    }
    slot.make_part();
    if (stage.stage >= 2 && parameter.requires_grad()) {
      shard_gradients(slot);
    }
    parameter = slot.part; // the optimizer's handle
    slots.push_back(std::move(slot));
  }

  // As soon as they are there.
  void shard_gradients(const Slot& slot) {
    hooks.emplace_back(
        slot.parameter,
        [parameter = slot.parameter, placements = slot.placements] {
          at::Tensor& gradient = parameter.mutable_grad();
          gradient = reshard(gradient, process_mesh_of(gradient), placements);
        });
  }
};

ShardOptimizer::ShardOptimizer(
    torch::optim::Optimizer& optimizer, ShardingStage stage)
    : impl_(new Impl{optimizer, mesh_of(optimizer), {}, {}}) {
  ARGOSY_CHECK(
      optimizer.state().empty(),
      "[shard_optimizer] the optimizer has made steps; shard it before");
  const ProcessMesh& mesh = impl_->mesh;
  const int axis = stage.stage == 0 ? 0 : semi_auto::sharding_axis(stage, mesh);
  const at::NoGradGuard no_grad;
  for (auto& group : optimizer.param_groups()) {
    for (at::Tensor& parameter : group.params()) {
      check_parameter(parameter, mesh);
      impl_->add(parameter, axis, stage);
    }
  }
}

ShardOptimizer::~ShardOptimizer() = default;
ShardOptimizer::ShardOptimizer(ShardOptimizer&&) noexcept = default;

void ShardOptimizer::step() {
  take_gradients();
  impl_->optimizer.step();
  put_back();
}

void ShardOptimizer::take_gradients() {
  const at::NoGradGuard no_grad;
  for (Slot& slot : impl_->slots) {
    slot.take_gradient();
  }
}

void ShardOptimizer::put_back() {
  const at::NoGradGuard no_grad;
  for (Slot& slot : impl_->slots) {
    if (slot.part.unsafeGetTensorImpl() !=
        slot.parameter.unsafeGetTensorImpl()) {
      slot.part.mutable_grad().reset();
    }
    slot.give_back();
  }
}

void ShardOptimizer::zero_grad() {
  for (Slot& slot : impl_->slots) {
    slot.parameter.mutable_grad().reset();
  }
}

torch::optim::Optimizer& ShardOptimizer::optimizer() {
  return impl_->optimizer;
}

const ProcessMesh& ShardOptimizer::mesh() const {
  return impl_->mesh;
}

} // namespace argosy
