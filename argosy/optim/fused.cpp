#include "argosy/optim/fused.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_strided.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/dtensor/dtensor.h"
#include "argosy/optim/fused_entry.h"
#include "argosy/optim/fused_impl.h"
#include "argosy/torch_hooks/backward.h"

namespace argosy::optim {

using torch::optim::OptimizerOptions;
using torch::optim::OptimizerParamGroup;

namespace {

bool is_sparse(const at::Tensor& grad) {
  return grad.layout() == c10::kSparse;
}

// Whether it is a float32 gradient of a 16-bit parameter, which kernels read
// directly.
bool is_main_grad(const at::Tensor& grad, const at::Tensor& param) {
  return grad.scalar_type() == c10::kFloat && has_master(*format_of(param));
}

bool is_ordered_like(const at::Tensor& grad, const at::Tensor& param) {
  return (grad.scalar_type() == param.scalar_type() ||
          is_main_grad(grad, param)) &&
      same_order(grad, param);
}

// Kernels walk parameter, gradient and states by one index over the memory, so
// a gradient with other strides (as of a transposed view) needs a copy.
at::Tensor ordered_like(const at::Tensor& grad, const at::Tensor& param) {
  const at::Tensor& typed = is_main_grad(grad, param) ? grad : param;
  at::Tensor copy =
      at::empty_strided(param.sizes(), param.strides(), typed.options());
  return copy.copy_(grad);
}

void zero(at::Tensor& grad) {
  if (grad.requires_grad() || is_sparse(grad) || is_dtensor(grad) ||
      !grad.is_non_overlapping_and_dense()) {
    grad = grad.detach().zero_();
    return;
  }
  // Skips the dispatcher, which costs more than the work for small tensors; so
  // autograd must be told of the write.
  std::memset(grad.data_ptr(), 0, grad.nbytes());
  torch_hooks::bump_version(grad);
}

} // namespace

FusedOptimizer::FusedOptimizer(
    ParamGroups params, std::unique_ptr<OptimizerOptions> defaults)
    : Optimizer(std::move(params.groups), std::move(defaults)),
      impl_(std::make_unique<Impl>()) {}

FusedOptimizer::~FusedOptimizer() = default;

std::vector<Span> spans_of(const std::vector<Entry>& entries) {
  std::vector<Span> spans;
  spans.reserve(entries.size());
  for (const Entry& entry : entries) {
    spans.push_back(entry.span);
  }
  return spans;
}

void set_sums(std::vector<Entry>& entries, const std::vector<Sums>& sums) {
  for (std::size_t i = 0; i < entries.size(); ++i) {
    entries[i].sums = sums[i];
  }
}

// Kernels write past the dispatcher: without this, autograd would not notice
// that a saved parameter has changed.
void note_writes(const std::vector<Entry>& entries) {
  for (const Entry& entry : entries) {
    torch_hooks::bump_version(*entry.whole);
  }
}

void FusedOptimizer::check_sparse(const OptimizerOptions&) const {
  throw InvalidArgument(
      "[optim.step] this optimizer does not support sparse gradients; SGD "
      "without momentum and decay, Adagrad without decay, and Adam and AdamW "
      "with "
      "lazy_mode do");
}

// Never reached where check_sparse() throws; optimizers that support sparse
// gradients override both.
void FusedOptimizer::update_sparse(const OptimizerOptions&, Entry&) {}

// Allocates the tensors of the state and puts their memory into the span.
void FusedOptimizer::prepare_state(std::size_t group, Entry& entry) {
  const OptimizerOptions& options = param_groups_[group].options();
  if (!has_state(options) && !has_master(entry.span.format)) {
    return;
  }
  const auto& params = param_groups_[group].params();
  const std::size_t index = entry.index;
  auto& state = state_[impl_->key(group, index, params[index])];
  if (!state) {
    state = new_state();
    entry.fresh = true;
  }
  entry.state = state.get();
  StateTensors found = tensors_of(*state, options);
  // 16-bit parameters have states and master weights of float32.
  const auto type =
      entry.param->scalar_type() == c10::kDouble ? c10::kDouble : c10::kFloat;
  const bool is_stored = impl_->stored && impl_->stored->has(group, index);
  std::int64_t number = 0; // of the tensor, in the order of the store
  const auto settle = [&](at::Tensor& tensor, std::size_t kind) {
    // A state that kernels can use stays where it is. Others, as those that
    // load_state_dict() has set, move into the arena or the store once.
    const bool fits = tensor.defined() && tensor.scalar_type() == type &&
        same_order(tensor, *entry.param) && !impl_->adopting && !impl_->stored;
    if (!fits) {
      at::Tensor placed = impl_->stored
          ? impl_->stored->view(group, index, number++, *entry.param, type)
          : impl_->place(params, group, index, kind, type);
      if (tensor.defined()) {
        placed.copy_(tensor);
      } else if (is_stored) {
        // It has its value already.
      } else if (kind < StateTensors::kMost) {
        // SGD's first momentum is the gradient itself.
        entry.fresh = true;
        placed.fill_(found.initial);
      } else {
        placed.copy_(*entry.param);
      }
      tensor = placed;
    }
    return tensor.data_ptr();
  };
  for (std::size_t i = 0; i < found.tensors.size() && found.tensors[i]; ++i) {
    entry.span.tile.states[i] = settle(*found.tensors[i], i);
  }
  if (has_master(entry.span.format)) {
    entry.span.tile.master = settle(*found.master, StateTensors::kMost);
  }
}

Entry FusedOptimizer::make_entry(std::size_t group, std::size_t index) {
  const OptimizerParamGroup& of = param_groups_[group];
  const at::Tensor& whole = of.params()[index];
  const at::Tensor& param = local_of(whole);
  const at::Tensor& grad = whole.grad();
  ARGOSY_CHECK(
      param.device().is_cpu() && format_of(param) &&
          param.is_non_overlapping_and_dense(),
      "[optim.step] parameter {} of group {}: expected a dense tensor of "
      "floats on the CPU",
      index,
      group);
  Entry entry{.param = &param, .whole = &whole, .grad = &grad, .index = index};
  if (is_sparse(grad)) {
    check_sparse(of.options());
    ARGOSY_CHECK(
        !has_master(*format_of(param)),
        "[optim.step] a sparse gradient of {}, expected float32 or float64",
        c10::toString(param.scalar_type()));
    return entry;
  }
  if (is_dtensor(whole)) {
    // Collective if the gradient is Partial or placed differently: all ranks
    // must have a gradient for the same parameters.
    entry.reordered = local_of(beside(grad, whole));
  }
  const at::Tensor& own = entry.reordered.defined() ? entry.reordered : grad;
  if (!is_ordered_like(own, param)) {
    entry.reordered = ordered_like(own, param);
  }
  const at::Tensor& read = entry.reordered.defined() ? entry.reordered : grad;
  entry.span = span_of(param);
  entry.span.tile.grad = read.data_ptr();
  if (has_master(entry.span.format) && read.scalar_type() == c10::kFloat) {
    entry.span.format = with_main_grad(entry.span.format);
  }
  return entry;
}

// Collects and checks the entries of all groups, before anything changes.
// States are prepared later.
std::vector<std::vector<Entry>> FusedOptimizer::collect() {
  std::vector<std::vector<Entry>> entries(param_groups_.size());
  for (std::size_t group = 0; group < entries.size(); ++group) {
    const auto& params = param_groups_[group].params();
    entries[group].reserve(params.size());
    for (std::size_t i = 0; i < params.size(); ++i) {
      if (params[i].grad().defined()) {
        entries[group].push_back(make_entry(group, i));
      }
    }
  }
  return entries;
}

void FusedOptimizer::update_group(
    std::size_t group, std::vector<Entry>& entries) {
  const OptimizerOptions& options = param_groups_[group].options();
  for (Entry& entry : entries) {
    if (is_sparse(*entry.grad)) {
      update_sparse(options, entry);
    }
  }
  std::erase_if(
      entries, [](const Entry& entry) { return is_sparse(*entry.grad); });
  note_writes(entries);
  if (measures(options)) {
    measure(options, entries);
    // A rank without parts of these parameters takes part, too.
    add_over_parts(entries, impl_->part_sums.get());
  }
  if (!entries.empty()) {
    update(options, entries);
  }
}

// Three passes: collect() checks everything before anything changes, so that an
// error leaves parameters and states as they were; then states get their
// memory; then each group is updated in one sweep over all its tensors.
at::Tensor FusedOptimizer::step(LossClosure closure) {
  at::Tensor loss;
  if (closure) {
    const at::AutoGradMode with_grad(true);
    loss = closure();
  }
  const at::NoGradGuard no_grad;
  auto entries = collect();
  if (impl_->stored) {
    step_by_buffer(entries);
    return loss;
  }
  for (std::size_t group = 0; group < entries.size(); ++group) {
    for (Entry& entry : entries[group]) {
      prepare_state(group, entry);
    }
  }
  // Each state has been moved by now; step() does not do it again.
  impl_->adopting = false;
  for (std::size_t group = 0; group < entries.size(); ++group) {
    update_group(group, entries[group]);
  }
  return loss;
}

void FusedOptimizer::set_part_sums(std::shared_ptr<PartSums> part_sums) {
  impl_->part_sums = std::move(part_sums);
}

void FusedOptimizer::zero_grad() {
  const at::NoGradGuard no_grad;
  for (OptimizerParamGroup& group : param_groups_) {
    for (at::Tensor& param : group.params()) {
      at::Tensor& grad = param.mutable_grad();
      if (grad.defined()) {
        zero(grad);
      }
    }
  }
}

void FusedOptimizer::adopt_states() {
  for (const auto& group : param_groups()) {
    for (const at::Tensor& param : group.params()) {
      const auto own =
          state().find(c10::guts::to_string(param.unsafeGetTensorImpl()));
      if (own == state().end()) {
        continue;
      }
      for (const at::Tensor* each :
           tensors_of(*own->second, group.options()).tensors) {
        if (each == nullptr || !each->defined() ||
            each->sizes() == local_of(param).sizes()) {
          continue;
        }
        const std::vector<std::int64_t> sizes = each->sizes().vec();
        state().clear();
        throw InvalidArgument(str_format(
            "[optim.load] a state of shape {} for a parameter of shape {}, "
            "expected the same. A sharded optimizer has pieces of parameters: "
            "states of whole ones go through its load_state_dict(). The "
            "optimizer has no states now",
            at::IntArrayRef(sizes),
            param.sizes()));
      }
    }
  }
  impl_->adopting = true;
  if (impl_->stored) {
    impl_->stored->forget_all();
  }
}

} // namespace argosy::optim
