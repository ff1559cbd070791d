#include "argosy/sharding/sharded_core.h"

#include <torch/nn/module.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "argosy/common/error.h"
#include "argosy/data_parallel/hook_memory.h"
#include "argosy/data_parallel/same_modules.h"
#include "argosy/dtensor/deferred_init.h"
#include "argosy/heap/allocator.h"
#include "argosy/sharding/grad_memory.h"
#include "argosy/sharding/model_plan.h"
#include "argosy/sharding/param_memory.h"
#include "argosy/training/held_part.h"
#include "argosy/training/main_grads.h"
#include "argosy/training/parameter_marks.h"

namespace argosy::sharding {

namespace {

using data_parallel::NamedTensors;

constexpr std::array<const char*, 3> kLevels = {"os", "os_g", "p_g_os"};

ParameterInfo info_of(const std::string& name, const at::Tensor& tensor) {
  return {
      .name = name,
      .count = tensor.numel(),
      .element = static_cast<std::size_t>(tensor.element_size()),
      .type = c10::toString(tensor.scalar_type()),
      .trainable = tensor.requires_grad(),
      .is_distributed = marks_of(tensor).is_distributed,
      .is_expert = marks_of(tensor).is_expert,
      .comm_fusion = marks_of(tensor).comm_fusion};
}

// Null if gradients are not averaged over the group.
GroupPtr replicas_of(const ShardingOptions& options, const GroupPtr& group) {
  return group && group->nranks() > 1 && !options.is_local ? group : nullptr;
}

void check_hook(Level level, const ShardingOptions& options) {
  ARGOSY_CHECK(
      !options.hook || level == Level::os,
      "[sharding] a hook for gradients with {}, expected os: from os_g on, "
      "ranks do not keep whole gradients",
      to_string(level));
  ARGOSY_CHECK(
      !options.hook || !options.sent_type,
      "[sharding] a hook for gradients and a sent_type, expected one of them: "
      "each decides how gradients are sent");
}

// An option that the level does not know would have no effect.
void check_level(Level level, const ShardingOptions& options) {
  const auto check = [&](const char* option, bool is_set, Level least) {
    ARGOSY_CHECK(
        !is_set || level >= least,
        "[sharding] {} with level {}, which has no use for it: expected {}, or "
        "no {}",
        option,
        to_string(level),
        to_string(least),
        option);
  };
  check("units", !options.units.empty(), Level::p_g_os);
  check("exclude_layer", !options.exclude_layer.empty(), Level::p_g_os);
  check("offload_params", options.offload_params, Level::p_g_os);
  check("offload_grads", options.offload_grads, Level::os_g);
}

void check_sent_type(const ShardingOptions& options) {
  ARGOSY_CHECK(
      !options.sent_type || *options.sent_type == c10::kHalf ||
          *options.sent_type == c10::kBFloat16,
      "[sharding] sent_type {}, expected Half or BFloat16",
      c10::toString(*options.sent_type));
}

// Parameters are copied to buckets in their order in memory, which must have no
// gaps.
void close_gaps(const std::string& name, const at::Tensor& tensor) {
  ARGOSY_CHECK(
      tensor.layout() == c10::kStrided && tensor.device().is_cpu(),
      "[sharding] parameter {} is not on the CPU or not dense, expected a "
      "dense CPU tensor",
      name);
  if (!tensor.is_non_overlapping_and_dense()) {
    tensor.set_data(tensor.contiguous());
  }
}

// Buffers for what is whole at the same time: with p_g_os a unit in use and the
// next one; from os_g on gradients that arrive while others are reduced.
std::shared_ptr<BufferPool> make_pool(
    const std::vector<UnitPlan>& plan,
    const NamedTensors& parameters,
    Level level,
    bool main_grad,
    const GroupPtr& group) {
  std::map<c10::ScalarType, std::int64_t> largest;
  for (const UnitPlan& unit : plan) {
    for (const Bucket& bucket : unit.buckets) {
      auto& count =
          largest[parameters[bucket.entries[0].parameter].second.scalar_type()];
      count = std::max(count, bucket.count);
    }
  }
  auto pool = std::make_shared<BufferPool>();
  for (const auto& [type, count] : largest) {
    const auto grad_type = training::grad_type(type, main_grad);
    pool->add(level == Level::p_g_os ? 2 : 0, count, type, group);
    pool->add(level == Level::os ? 0 : 2, count, grad_type, group);
  }
  return pool;
}

} // namespace

Level level_of(const std::string& name) {
  for (std::size_t i = 0; i < kLevels.size(); ++i) {
    if (name == kLevels[i]) {
      return static_cast<Level>(i);
    }
  }
  throw InvalidArgument(str_format(
      "[sharding] there is no level \"{}\", expected os, os_g or p_g_os",
      name));
}

const char* to_string(Level level) {
  return kLevels[static_cast<std::size_t>(level)];
}

struct ShardedCore::Impl {
  torch::nn::Module& module;
  const Level level;
  const ShardingOptions options;
  const GroupPtr group;
  const NamedTensors named;
  const NamedTensors buffers;
  std::vector<ParameterInfo> infos;
  std::vector<UnitPlan> plan;
  std::shared_ptr<BufferPool> pool;
  std::shared_ptr<ParamMemory> params;
  std::optional<GradMemory> grads;
  std::vector<OwnPiece> pieces;
  bool is_stale = false; // resident parameters are those before a step

  Impl(torch::nn::Module& its_module, Level its_level, ShardingOptions given)
      : module(its_module),
        level(its_level),
        options(std::move(given)),
        group(options.group ? options.group : get_group(0)),
        named(data_parallel::distinct(module.named_parameters(true))),
        buffers(data_parallel::distinct(module.named_buffers(true))) {}

  data_parallel::BucketHook* hook() const {
    return group->nranks() > 1 ? options.hook.get() : nullptr;
  }
  data_parallel::MemoryOwner memory_owner() const {
    data_parallel::MemoryOwner owner{.group = group, .parameters = {}};
    for (const ParameterInfo& info : infos) {
      owner.parameters.emplace_back(info.name, info.count);
    }
    return owner;
  }
  std::shared_ptr<ShardMemory> shards_if(bool offloaded) const;
  void check_same() const;
  void share(const NamedTensors& tensors, bool experts) const;
  void share_start() const;
  void make_real(std::size_t parameter) const;
  int expert_ranks() const;
  void cut();
  void describe_pieces(const std::vector<at::Tensor>& parameters) const;
};

std::shared_ptr<ShardMemory> ShardedCore::Impl::shards_if(
    bool offloaded) const {
  ARGOSY_CHECK(
      !offloaded || options.offload,
      "[sharding] offload_params and offload_grads need the option offload");
  return std::make_shared<ShardMemory>(
      offloaded ? options.offload : std::nullopt);
}

// All ranks must have the same parameters, and have deferred the same.
void ShardedCore::Impl::check_same() const {
  NamedTensors experts;
  NamedTensors all = buffers;
  for (const auto& [name, tensor] : named) {
    (marks_of(tensor).is_expert ? experts : all)
        .emplace_back(
            is_deferred(tensor) ? name + " (deferred)" : name, tensor);
  }
  const auto check = [](const NamedTensors& tensors, const GroupPtr& ranks) {
    if (ranks) {
      data_parallel::check_same(tensors, ranks);
    }
  };
  check(all, group);
  check(all, options.dp_group);
  if (!experts.empty()) {
    check(experts, group);
    check(experts, options.expert_dp_group);
  }
}

// Gives all ranks the values of the first one. For experts, that is the first
// of the ranks that hold the same ones.
void ShardedCore::Impl::share(const NamedTensors& tensors, bool experts) const {
  // First within the groups, then between them: afterwards all ranks have the
  // values of the first rank of the first group.
  for (const GroupPtr& ranks :
       {group, experts ? options.expert_dp_group : options.dp_group}) {
    if (ranks && !tensors.empty()) {
      data_parallel::share_values(tensors, ranks->ranks().front(), ranks);
    }
  }
}

void ShardedCore::Impl::share_start() const {
  NamedTensors experts;
  NamedTensors all = buffers;
  for (const auto& each : named) {
    if (!is_deferred(each.second)) {
      close_gaps(each.first, each.second);
      (marks_of(each.second).is_expert ? experts : all).push_back(each);
    }
  }
  share(all, false);
  share(experts, true);
}

// Makes the values of a deferred parameter, and shares them.
void ShardedCore::Impl::make_real(std::size_t parameter) const {
  const auto& [name, tensor] = named[parameter];
  if (!is_deferred(tensor)) {
    return;
  }
  materialize(tensor);
  close_gaps(name, tensor);
  const ParameterMarks marks = marks_of(tensor);
  const GroupPtr& mp = options.mp_group;
  if (mp && mp->nranks() > 1 && !marks.is_distributed) {
    data_parallel::share_values({named[parameter]}, mp->ranks().front(), mp);
  }
  share({named[parameter]}, marks.is_expert);
}

// The number of ranks over which a gradient of an expert is a sum.
int ShardedCore::Impl::expert_ranks() const {
  const auto ranks = [](const GroupPtr& some) {
    return some ? some->nranks() : 1;
  };
  return ranks(options.dp_group) / ranks(options.expert_dp_group);
}

void ShardedCore::Impl::cut() {
  std::vector<at::Tensor> tensors;
  for (const auto& [name, tensor] : named) {
    infos.push_back(info_of(name, tensor));
    tensors.push_back(tensor);
  }
  plan = plan_model(infos, level, options, group->nranks());
  pool = make_pool(plan, named, level, options.main_grad, group);
  params = ParamMemory::make(
      plan,
      tensors,
      group,
      pool,
      shards_if(options.offload_params),
      [this](std::size_t parameter) { make_real(parameter); });
  grads.emplace(
      params->units(),
      infos,
      pool,
      shards_if(options.offload_grads),
      GradOptions{
          .group = group,
          .replicas = replicas_of(options, options.dp_group),
          .expert_replicas = replicas_of(options, options.expert_dp_group),
          .expert_ranks = expert_ranks(),
          .keeps_whole = level == Level::os,
          .find_unused_parameters = options.find_unused_parameters,
          .main_grad = options.main_grad,
          .sent_type = options.sent_type,
          .hook = hook() != nullptr ? options.hook : nullptr},
      [memory = params.get()](std::size_t unit) { memory->release(unit); });
  for (const auto& [place, tensor] : grads->pieces()) {
    pieces.push_back(
        {infos[place.parameter].name, tensors[place.parameter], place, tensor});
  }
  describe_pieces(tensors);
}

// Tells checkpoints what the pieces are, and where the values of parameters are
// that have no memory between steps.
void ShardedCore::Impl::describe_pieces(
    const std::vector<at::Tensor>& parameters) const {
  std::vector<at::Tensor> by_parameter(parameters.size());
  for (const OwnPiece& piece : pieces) {
    training::set_piece_of(
        piece.tensor, piece.param, {piece.place.from, piece.place.count});
    by_parameter[piece.place.parameter] = piece.tensor;
  }
  for (const UnitPlan& unit : plan) {
    for (const Bucket& bucket : unit.buckets) {
      for (const BucketEntry& entry : bucket.entries) {
        if (!unit.resident) {
          training::set_values_in(
              parameters[entry.parameter], by_parameter[entry.parameter]);
        }
      }
    }
  }
}

ShardedCore::ShardedCore(
    torch::nn::Module& module, Level level, ShardingOptions options)
    : impl_(new Impl(module, level, std::move(options))) {
  if (impl_->options.keep_memory) {
    keep_tensor_memory();
  }
  check_level(level, impl_->options);
  check_sent_type(impl_->options);
  check_hook(level, impl_->options);
  impl_->check_same();
  // Whole parameters are made at once, others unit by unit.
  if (level != Level::p_g_os) {
    materialize(module);
  }
  for (const auto& [name, buffer] : impl_->buffers) {
    materialize(buffer);
  }
  impl_->share_start();
  impl_->cut();
}

ShardedCore::~ShardedCore() = default;

// recover() comes first: after a failed backward it is the collective that the
// ranks meet in. after_step() gathers if the plain optimizer was stepped. Units
// that are still whole hold the values before that step, so they are released
// before the forward uses them.
void ShardedCore::before_forward() {
  impl_->grads->reduction().recover();
  impl_->params->adopt_values();
  after_step();
  impl_->params->release_all();
  impl_->params->begin_pass();
  if (impl_->options.sync_buffers && at::GradMode::is_enabled()) {
    data_parallel::share_values(
        impl_->buffers, impl_->group->ranks().front(), impl_->group);
  }
}

void ShardedCore::after_forward(const Tensors& /*outputs*/) {
  if (at::GradMode::is_enabled()) {
    impl_->is_stale = impl_->is_stale || sync(); // a step may follow
  }
}

void ShardedCore::set_sync(bool sync) {
  impl_->grads->reduction().set_sync(sync);
}

bool ShardedCore::sync() const {
  return impl_->grads->reduction().sync();
}

void ShardedCore::zero_grad() {
  impl_->grads->zero_grad();
}

void ShardedCore::reduce_gradients() {
  impl_->grads->reduction().reduce();
  impl_->is_stale = true; // a step may follow
}

bool ShardedCore::keeps_gradient_parts() const {
  return impl_->level != Level::os;
}

void ShardedCore::reduce_gradients_early(const Tensors& whole) {
  std::set<std::size_t> kept;
  for (std::size_t i = 0; i < impl_->named.size(); ++i) {
    const at::Tensor& tensor = impl_->named[i].second;
    if (std::ranges::any_of(whole, [&](const at::Tensor& each) {
          return each.is_same(tensor);
        })) {
      kept.insert(i);
    }
  }
  impl_->grads->reduction().reduce_early(kept);
}

training::ModelCore::Memory ShardedCore::memory() const {
  return data_parallel::memory_of(impl_->hook(), impl_->memory_owner());
}

void ShardedCore::set_memory(const Memory& memory) {
  data_parallel::set_memory_of(impl_->hook(), impl_->memory_owner(), memory);
}

Level ShardedCore::level() const {
  return impl_->level;
}

const GroupPtr& ShardedCore::group() const {
  return impl_->group;
}

const GroupPtr& ShardedCore::dp_group() const {
  return impl_->options.dp_group;
}

const ShardingOptions& ShardedCore::options() const {
  return impl_->options;
}

torch::nn::Module& ShardedCore::module() const {
  return impl_->module;
}

const std::vector<UnitPlan>& ShardedCore::plan() const {
  return impl_->plan;
}

const std::vector<ParameterInfo>& ShardedCore::parameters() const {
  return impl_->infos;
}

const std::vector<OwnPiece>& ShardedCore::pieces() const {
  return impl_->pieces;
}

void ShardedCore::before_step() {
  impl_->params->adopt_values();
  impl_->params->release_all();
  impl_->is_stale = true;
}

void ShardedCore::after_step() {
  if (impl_->is_stale) {
    impl_->is_stale = false;
    impl_->params->take_step();
  }
}

void ShardedCore::settle() {
  impl_->grads->reduction().recover();
  impl_->params->adopt_values();
  after_step();
  impl_->params->release_all();
}

void ShardedCore::begin_whole() {
  settle();
  impl_->params->begin_whole();
}

void ShardedCore::end_whole() {
  impl_->params->end_whole();
}

} // namespace argosy::sharding
