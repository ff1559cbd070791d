#include "argosy/data_parallel/data_parallel.h"

#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "argosy/comm/operation/label.h"
#include "argosy/common/error.h"
#include "argosy/data_parallel/hook_memory.h"
#include "argosy/data_parallel/reducer.h"
#include "argosy/data_parallel/same_modules.h"
#include "argosy/dtensor/deferred_init.h"
#include "argosy/heap/allocator.h"
#include "argosy/training/main_grads.h"
#include "argosy/training/parameter_marks.h"
#include "argosy/world/world.h"

namespace argosy::data_parallel {

namespace {

// Names of the weights of embeddings with sparse gradients.
std::vector<std::string> sparse_embeddings(torch::nn::Module& module) {
  std::vector<std::string> names;
  for (const auto& item : module.named_modules("", true)) {
    const auto* single = item.value()->as<torch::nn::EmbeddingImpl>();
    const auto* bag = item.value()->as<torch::nn::EmbeddingBagImpl>();
    if ((single != nullptr && single->options.sparse()) ||
        (bag != nullptr && bag->options.sparse())) {
      names.push_back(item.key().empty() ? "weight" : item.key() + ".weight");
    }
  }
  return names;
}

Fusion fusion_of(const DataParallelOptions& options) {
  const auto bytes = [](double megabytes) {
    ARGOSY_CHECK(
        megabytes >= 0,
        "[data_parallel] a buffer size is {} MB, expected >= 0",
        megabytes);
    return static_cast<std::size_t>(megabytes * (1 << 20));
  };
  return {
      .mode = options.fusion,
      .bytes = bytes(options.comm_buffer_size),
      .last_bytes = bytes(options.last_comm_buffer_size),
      .starts = options.fusion_starts};
}

} // namespace

struct DataParallelCore::Impl {
  DataParallelOptions options;
  GroupPtr group;
  NamedTensors parameters; // without those of experts
  NamedTensors experts;
  NamedTensors buffers;
  std::optional<Reducer> reducer;                // none if there is one rank
  std::optional<Reducer> of_experts;             // none if there are no experts
  std::optional<training::MainGrads> main_grads; // only if there is one rank

  bool sync = true;

  bool joining = false;
  std::int64_t steps = 0; // since join began

  NamedTensors everything() const {
    NamedTensors all = parameters;
    all.insert(all.end(), buffers.begin(), buffers.end());
    return all;
  }

  void find_parameters(const torch::nn::Module& module) {
    for (auto& named : distinct(module.named_parameters(true))) {
      const bool is_expert = marks_of(named.second).is_expert;
      (is_expert ? experts : parameters).push_back(std::move(named));
    }
  }

  ReducerOptions reducer_options(const GroupPtr& members) const {
    ReducerOptions result;
    result.fusion = fusion_of(options);
    result.group = members;
    result.find_unused_parameters = options.find_unused_parameters;
    result.static_graph = options.static_graph;
    result.main_grad = options.main_grad;
    return result;
  }

  // Without expert_group each rank has experts of its own. They get a reducer
  // too, over a group of one rank, because their gradients still need the
  // divisor.
  void reduce_experts() {
    const GroupPtr members = options.expert_group
        ? options.expert_group
        : shared_group(current_world(), {current_world()->rank()});
    if (members->nranks() > 1) {
      check_same(experts, members, "experts");
      share_values(experts, members->ranks().front(), members);
    }
    of_experts.emplace(trainable(experts), reducer_options(members));
    // The loss is the mean over `group`, whose ranks have all sent tokens to
    // the experts, however few ranks hold copies of them.
    of_experts->set_divisor(group->nranks());
  }

  BucketHook* hook() const { return reducer ? options.hook.get() : nullptr; }
  MemoryOwner memory_owner() const {
    MemoryOwner owner{.group = group, .parameters = {}};
    for (const auto& [name, parameter] : trainable(parameters)) {
      owner.parameters.emplace_back(name, parameter.numel());
    }
    return owner;
  }

  template <typename Action>
  void for_each_reducer(const Action& action) {
    for (auto* each : {&reducer, &of_experts}) {
      if (*each) {
        action(**each);
      }
    }
  }

  // The ranks that still have inputs. Those exchange it at every forward, the
  // others in each round of end_join(), so that the calls match.
  struct Active {
    int count;
    int first; // global rank of the first of them
    bool sync; // whether the gradients of this step are averaged
  };
  Active share_active(bool active) {
    const int n = group->nranks();
    at::Tensor numbers = at::zeros({n + 1}, at::kInt);
    auto* values = numbers.data_ptr<int>(); // one of each rank, then sync
    values[group->rank()] = active ? 1 : 0;
    values[n] = active && reducer->reduction().sync() ? 1 : 0;
    static const OpLabel label("join: which ranks still have batches");
    const LabelScope scope(label);
    all_reduce(numbers, ReduceOp::SUM, group);
    const auto first = std::find(values, values + n, 1) - values;
    return {
        .count = std::accumulate(values, values + n, 0),
        .first = group->ranks()[static_cast<std::size_t>(first % n)],
        .sync = values[n] > 0};
  }

  void share_buffers(int source) {
    if (options.broadcast_buffers) {
      share_values(buffers, source, group);
    }
  }
};

DataParallelCore::DataParallelCore(
    torch::nn::Module& module, DataParallelOptions options)
    : impl_(new Impl) {
  if (options.keep_memory) {
    keep_tensor_memory();
  }
  materialize(module);
  impl_->group = options.group ? options.group : get_group(0);
  impl_->find_parameters(module);
  impl_->buffers = distinct(module.named_buffers(true));
  impl_->options = std::move(options);
  // Without a reducer autograd accumulates as usual; only the float32 gradients
  // of main_grad have to be arranged for.
  if (impl_->group->nranks() == 1) {
    if (impl_->options.main_grad) {
      impl_->main_grads.emplace(module.parameters());
    }
    return;
  }
  // Compare before the broadcast: with shapes that differ it would wait for
  // bytes that never come, or fill tensors with the wrong values.
  check_same(impl_->everything(), impl_->group);
  share_values(
      impl_->everything(), impl_->group->ranks().front(), impl_->group);
  ReducerOptions reducer = impl_->reducer_options(impl_->group);
  reducer.hook = impl_->options.hook;
  reducer.sparse = sparse_embeddings(module);
  reducer.sparse.insert(
      reducer.sparse.end(),
      impl_->options.sparse_parameters.begin(),
      impl_->options.sparse_parameters.end());
  impl_->reducer.emplace(trainable(impl_->parameters), std::move(reducer));
  if (!impl_->experts.empty()) {
    impl_->reduce_experts();
  }
}

DataParallelCore::~DataParallelCore() = default;

void DataParallelCore::before_forward() {
  if (!impl_->reducer || !at::GradMode::is_enabled()) {
    return;
  }
  // First of all: after a failed backward, recover() is the first collective
  // that the ranks meet in.
  impl_->for_each_reducer([](Reducer& each) { each.reduction().recover(); });
  int source = impl_->group->ranks().front();
  if (impl_->joining) {
    const Impl::Active active = impl_->share_active(true);
    impl_->reducer->set_divisor(active.count);
    source = active.first;
    ++impl_->steps;
  }
  impl_->share_buffers(source);
}

void DataParallelCore::after_forward(const Tensors& outputs) {
  if (at::GradMode::is_enabled()) {
    impl_->for_each_reducer([&](Reducer& each) { each.prepare(outputs); });
  }
}

void DataParallelCore::set_sync(bool sync) {
  impl_->sync = sync;
  impl_->for_each_reducer(
      [&](Reducer& each) { each.reduction().set_sync(sync); });
}

bool DataParallelCore::sync() const {
  return impl_->sync;
}

void DataParallelCore::zero_grad() {
  impl_->for_each_reducer([](Reducer& each) { each.reduction().zero_grad(); });
  if (impl_->reducer) {
    return;
  }
  for (const NamedTensors* list : {&impl_->parameters, &impl_->experts}) {
    for (const auto& [name, parameter] : *list) {
      parameter.mutable_grad() = at::Tensor();
    }
  }
}

void DataParallelCore::reduce_gradients() {
  impl_->for_each_reducer([](Reducer& each) { each.reduction().reduce(); });
}

training::ModelCore::Memory DataParallelCore::memory() const {
  return memory_of(impl_->hook(), impl_->memory_owner());
}

void DataParallelCore::set_memory(const Memory& memory) {
  set_memory_of(impl_->hook(), impl_->memory_owner(), memory);
}

const BucketPlan& DataParallelCore::plan() const {
  static const BucketPlan nothing;
  return impl_->reducer ? impl_->reducer->plan() : nothing;
}

const GroupPtr& DataParallelCore::group() const {
  return impl_->group;
}

void DataParallelCore::begin_join() {
  ARGOSY_CHECK(
      impl_->experts.empty(),
      "[data_parallel] join() does not work with experts: a rank that has run "
      "out of inputs holds experts that other ranks need");
  impl_->joining = true;
  impl_->steps = 0;
}

void DataParallelCore::end_join() {
  impl_->joining = false;
  if (!impl_->reducer) {
    return;
  }
  // Each round answers one before_forward() of the ranks that still train, and
  // the reduction of the backward that follows it.
  for (;;) {
    const Impl::Active active = impl_->share_active(false);
    if (active.count == 0) {
      break;
    }
    impl_->share_buffers(active.first);
    if (active.sync) {
      impl_->reducer->set_divisor(active.count);
      impl_->reducer->reduction().reduce_zeros();
    }
  }
  impl_->reducer->set_divisor(0);
  // The rank with the most steps has stepped its optimizer last. One MAX finds
  // it: the number of steps counts first, then the rank.
  const std::int64_t n = impl_->group->nranks();
  at::Tensor last = at::zeros({1}, at::kLong);
  last.fill_(impl_->steps * n + impl_->group->rank());
  all_reduce(last, ReduceOp::MAX, impl_->group);
  const auto place = static_cast<std::size_t>(last.item<std::int64_t>() % n);
  share_values(impl_->everything(), impl_->group->ranks()[place], impl_->group);
}

Join::Join(std::shared_ptr<DataParallelCore> core) : core_(std::move(core)) {
  core_->begin_join();
}

Join::~Join() = default;

void Join::finish() {
  if (!finished_) {
    finished_ = true;
    core_->end_join();
  }
}

} // namespace argosy::data_parallel
