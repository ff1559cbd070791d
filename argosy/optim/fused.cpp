#include "argosy/optim/fused.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/dtensor/dtensor.h"
#include "argosy/optim/flat_parameters.h"
#include "argosy/optim/fused_entry.h"
#include "argosy/optim/local.h"
#include "argosy/optim/stored_states.h"

namespace argosy::optim {

using torch::optim::OptimizerOptions;
using torch::optim::OptimizerParamGroup;

namespace {

// A parameter as torch::optim's state() knows it.
struct Key {
  const void* impl = nullptr;
  std::string text;
};

bool is_sparse(const at::Tensor& grad) {
  return grad.layout() == c10::kSparse;
}

// A float32 gradient of a 16-bit parameter stays one.
bool is_main_grad(const at::Tensor& grad, const at::Tensor& param) {
  return grad.scalar_type() == c10::kFloat && has_master(*format_of(param));
}

bool is_ordered_like(const at::Tensor& grad, const at::Tensor& param) {
  return (grad.scalar_type() == param.scalar_type() ||
          is_main_grad(grad, param)) &&
      same_order(grad, param);
}

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
  std::memset(grad.data_ptr(), 0, grad.nbytes());
  grad.unsafeGetTensorImpl()->bump_version();
}

} // namespace

struct FusedOptimizer::Impl {
  // By group and by index in it.
  std::vector<std::vector<Key>> keys;
  // By group, kind of state and type.
  std::map<std::tuple<std::size_t, std::size_t, c10::ScalarType>, FlatTensors>
      arenas;
  // Instead of the arenas; null for most.
  std::unique_ptr<StoredStates> stored;
  // States that are elsewhere move into the arenas, or the store.
  bool adopting = false;

  const std::string& key(
      std::size_t group, std::size_t index, const at::Tensor& param) {
    keys.resize(std::max(keys.size(), group + 1));
    auto& of_group = keys[group];
    of_group.resize(std::max(of_group.size(), index + 1));
    Key& found = of_group[index];
    if (found.impl != param.unsafeGetTensorImpl()) {
      found.impl = param.unsafeGetTensorImpl();
      found.text = c10::guts::to_string(param.unsafeGetTensorImpl());
    }
    return found.text;
  }

  at::Tensor place(
      const std::vector<at::Tensor>& params,
      std::size_t group,
      std::size_t index,
      std::size_t kind,
      c10::ScalarType type) {
    FlatTensors& arena = arenas[{group, kind, type}];
    if (arena.views.size() < params.size() ||
        arena.views[index].sizes() != local_of(params[index]).sizes()) {
      arena =
          flat_zeros(locals_of(params), type); // views of an older one keep it
    }
    return arena.views[index];
  }
};

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

void FusedOptimizer::check_sparse(const OptimizerOptions&) const {
  throw InvalidArgument(
      "[optim.step] this optimizer takes no sparse gradients; SGD without "
      "momentum and decay, and Adagrad without decay do");
}

void FusedOptimizer::update_sparse(const OptimizerOptions&, Entry&) {}

// Gives every tensor of the state a place, and puts its memory into the span.
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
  const auto type =
      entry.param->scalar_type() == c10::kDouble ? c10::kDouble : c10::kFloat;
  const bool is_stored = impl_->stored && impl_->stored->has(group, index);
  std::int64_t number = 0; // of the tensor, in the order of the store
  const auto settle = [&](at::Tensor& tensor, std::size_t kind) {
    const bool fits = tensor.defined() && tensor.scalar_type() == type &&
        same_order(tensor, *entry.param) && !impl_->adopting && !impl_->stored;
    if (!fits) {
      at::Tensor placed = impl_->stored
          ? impl_->stored->view(group, index, number++, *entry.param, type)
          : impl_->place(params, group, index, kind, type);
      if (tensor.defined()) {
        placed.copy_(tensor);
      } else if (is_stored) {
        // It has its value.
      } else if (kind < StateTensors::kMost) {
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
      "[optim.step] parameter ",
      index,
      " of group ",
      group,
      ": expected a dense tensor of floats on the CPU");
  Entry entry{.param = &param, .whole = &whole, .grad = &grad, .index = index};
  if (is_sparse(grad)) {
    check_sparse(of.options());
    ARGOSY_CHECK(
        !has_master(*format_of(param)),
        "[optim.step] a sparse gradient of ",
        c10::toString(param.scalar_type()),
        ", expected float32 or float64");
    return entry;
  }
  if (is_dtensor(whole)) {
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

// Entries of all groups, by group. Checks all; states come later.
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
    } else {
      entry.whole->unsafeGetTensorImpl()->bump_version();
    }
  }
  std::erase_if(
      entries, [](const Entry& entry) { return is_sparse(*entry.grad); });
  if (!entries.empty()) {
    update(options, entries);
  }
}

at::Tensor FusedOptimizer::step(LossClosure closure) {
  at::Tensor loss;
  if (closure) {
    const at::AutoGradMode with_grad(true);
    loss = closure();
  }
  const at::NoGradGuard no_grad;
  auto entries = collect();
  if (impl_->stored) {
    step_by_bucket(entries);
    return loss;
  }
  for (std::size_t group = 0; group < entries.size(); ++group) {
    for (Entry& entry : entries[group]) {
      prepare_state(group, entry);
    }
  }
  impl_->adopting = false;
  for (std::size_t group = 0; group < entries.size(); ++group) {
    update_group(group, entries[group]);
  }
  return loss;
}

// What the states of each parameter take, as the options are now.
std::vector<std::vector<StateSize>> FusedOptimizer::state_sizes() const {
  std::vector<std::vector<StateSize>> sizes;
  for (const OptimizerParamGroup& group : param_groups_) {
    const auto state = new_state();
    const StateTensors found = tensors_of(*state, group.options());
    const auto count = std::count_if(
        found.tensors.begin(), found.tensors.end(), [](const at::Tensor* each) {
          return each != nullptr;
        });
    auto& of_group = sizes.emplace_back();
    for (const at::Tensor& param : locals_of(group.params())) {
      const auto format = format_of(param);
      const bool masters = format && has_master(*format);
      of_group.push_back(
          {.numel = param.numel(),
           .element_bytes = param.scalar_type() == c10::kDouble ? 8 : 4,
           .num_tensors = count + (masters ? 1 : 0)});
    }
  }
  return sizes;
}

void FusedOptimizer::step_by_bucket(std::vector<std::vector<Entry>>& entries) {
  StoredStates& stored = *impl_->stored;
  auto sizes = state_sizes();
  if (!stored.fits(sizes)) {
    copy_states();
    stored.lay_out(std::move(sizes));
  }
  for (std::size_t group = 0; group < entries.size(); ++group) {
    const auto bucket_of = [&](const Entry& entry) {
      return stored.bucket_of(group, entry.index);
    };
    auto begin = entries[group].begin();
    while (begin != entries[group].end()) {
      const auto end =
          std::find_if(begin, entries[group].end(), [&](const Entry& entry) {
            return bucket_of(entry) != bucket_of(*begin);
          });
      stored.open(bucket_of(*begin));
      step_bucket(group, {begin, end});
      stored.close(true);
      begin = end;
    }
  }
  impl_->adopting = false;
}

void FusedOptimizer::step_bucket(
    std::size_t group, std::vector<Entry> entries) {
  for (Entry& entry : entries) {
    prepare_state(group, entry);
  }
  const std::vector<Entry> all = entries;
  update_group(group, entries);
  for (const Entry& entry : all) {
    if (entry.state == nullptr) {
      continue;
    }
    // Its memory is about to go.
    StateTensors found =
        tensors_of(*entry.state, param_groups_[group].options());
    for (at::Tensor* tensor : found.tensors) {
      if (tensor != nullptr) {
        tensor->reset();
      }
    }
    found.master->reset();
    impl_->stored->set_has(group, entry.index);
  }
}

// Into state(). Gives the tensors that it has set.
std::vector<at::Tensor*> FusedOptimizer::copy_states() const {
  std::vector<at::Tensor*> copies;
  StoredStates& stored = *impl_->stored;
  for (std::size_t group = 0; group < param_groups_.size(); ++group) {
    const auto& params = param_groups_[group].params();
    for (std::size_t i = 0; i < params.size(); ++i) {
      if (!stored.has(group, i)) {
        continue;
      }
      stored.open(stored.bucket_of(group, i));
      const at::Tensor& param = local_of(params[i]);
      const auto type =
          param.scalar_type() == c10::kDouble ? c10::kDouble : c10::kFloat;
      std::int64_t number = 0;
      const auto copy = [&](at::Tensor* to) {
        *to = stored.view(group, i, number++, param, type).clone();
        copies.push_back(to);
      };
      StateTensors found = tensors_of(
          *state_.at(impl_->key(group, i, params[i])),
          param_groups_[group].options());
      for (at::Tensor* tensor : found.tensors) {
        if (tensor != nullptr) {
          copy(tensor);
        }
      }
      if (has_master(*format_of(param))) {
        copy(found.master);
      }
    }
  }
  stored.close(false);
  return copies;
}

std::shared_ptr<void> FusedOptimizer::states_in_memory() const {
  if (!impl_->stored) {
    return nullptr;
  }
  return std::shared_ptr<std::vector<at::Tensor*>>(
      new std::vector<at::Tensor*>(copy_states()), [](auto* copies) {
        for (at::Tensor* copy : *copies) {
          copy->reset();
        }
        delete copies;
      });
}

void FusedOptimizer::set_state_store(std::shared_ptr<StateStore> store) {
  if (impl_->stored) {
    copy_states();
  }
  impl_->stored =
      store ? std::make_unique<StoredStates>(std::move(store)) : nullptr;
  impl_->arenas.clear();
  adopt_states();
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

template <typename F>
void FusedOptimizer::for_each_param(
    const std::vector<std::string>& names, const F& f) {
  std::size_t number = 0;
  for (std::size_t group = 0; group < param_groups_.size(); ++group) {
    const auto& params = param_groups_[group].params();
    for (std::size_t i = 0; i < params.size(); ++i, ++number) {
      ARGOSY_CHECK(
          names.empty() || number < names.size(),
          "[optim.state_dict] ",
          names.size(),
          " names, expected one for each parameter");
      f(names.empty() ? std::to_string(number) : names[number],
        impl_->key(group, i, params[i]),
        param_groups_[group].options(),
        params[i]);
    }
  }
}

StateDict FusedOptimizer::state_dict(const std::vector<std::string>& names) {
  StateDict result;
  const auto in_memory = states_in_memory();
  for_each_param(
      names, [&](const auto& name, const auto& key, auto& options, auto& p) {
        const auto found = state_.find(key);
        if (found == state_.end()) {
          return;
        }
        StateTensors of = tensors_of(*found->second, options);
        for (std::size_t k = 0; k < of.tensors.size() && of.tensors[k]; ++k) {
          if (of.tensors[k]->defined()) {
            result[name + '.' + of.names[k]] = global_like(*of.tensors[k], p);
          }
        }
        if (of.master->defined()) {
          result[name + ".master"] = global_like(*of.master, p);
        }
        if (of.step != nullptr) {
          result[name + ".step"] = at::scalar_tensor(*of.step, c10::kLong);
        }
      });
  return result;
}

void FusedOptimizer::load_state_dict(
    const StateDict& states, const std::vector<std::string>& names) {
  std::size_t num_used = 0;
  const auto take = [&](const std::string& name) -> const at::Tensor* {
    const auto found = states.find(name);
    num_used += found != states.end() ? 1 : 0;
    return found != states.end() ? &found->second : nullptr;
  };
  std::map<std::string, std::unique_ptr<torch::optim::OptimizerParamState>>
      loaded;
  for_each_param(
      names, [&](const auto& name, const auto& key, auto& options, auto& p) {
        const std::size_t used_before = num_used;
        auto state = new_state();
        StateTensors of = tensors_of(*state, options);
        const auto fill = [&](at::Tensor& to, const std::string& kind) {
          if (const at::Tensor* from = take(name + '.' + kind)) {
            ARGOSY_CHECK(
                from->sizes() == p.sizes(),
                "[optim.load_state_dict] ",
                name,
                '.',
                kind,
                " has shape ",
                from->sizes(),
                ", expected ",
                p.sizes());
            to = local_like(from->detach(), p).clone();
          }
        };
        for (std::size_t k = 0; k < of.tensors.size() && of.tensors[k]; ++k) {
          fill(*of.tensors[k], of.names[k]);
        }
        fill(*of.master, "master");
        if (const at::Tensor* step =
                of.step == nullptr ? nullptr : take(name + ".step")) {
          *of.step = step->item<std::int64_t>();
        }
        if (num_used > used_before) {
          loaded[key] = std::move(state);
        }
      });
  ARGOSY_CHECK(
      num_used == states.size(),
      "[optim.load_state_dict] ",
      states.size() - num_used,
      " of ",
      states.size(),
      " names belong to no parameter of this optimizer");
  state_.clear();
  for (auto& [key, state] : loaded) {
    state_[key] = std::move(state);
  }
  adopt_states();
}

void FusedOptimizer::adopt_states() {
  impl_->adopting = true;
  if (impl_->stored) {
    impl_->stored->forget_all();
  }
}

} // namespace argosy::optim
