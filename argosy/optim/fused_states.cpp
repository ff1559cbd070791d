// The states of a FusedOptimizer by name.

#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <map>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/optim/fused_impl.h"

namespace argosy::optim {

template <typename F>
void FusedOptimizer::for_each_param(
    const std::vector<std::string>& names, const F& f) {
  // Runs over all groups: without names, a parameter is known by its number.
  std::size_t number = 0;
  for (std::size_t group = 0; group < param_groups_.size(); ++group) {
    const auto& params = param_groups_[group].params();
    for (std::size_t i = 0; i < params.size(); ++i, ++number) {
      ARGOSY_CHECK(
          names.empty() || number < names.size(),
          "[optim.state_dict] {} names, expected one for each parameter",
          names.size());
      f(names.empty() ? std::to_string(number) : names[number],
        impl_->key(group, i, params[i]),
        param_groups_[group].options(),
        params[i]);
    }
  }
}

std::vector<std::string> FusedOptimizer::state_kinds(
    const torch::optim::OptimizerOptions& options) const {
  std::vector<std::string> kinds;
  if (!has_state(options)) {
    return kinds;
  }
  const auto state = new_state();
  const StateTensors of = tensors_of(*state, options);
  for (std::size_t k = 0; k < of.tensors.size() && of.tensors[k]; ++k) {
    kinds.emplace_back(of.names[k]);
  }
  return kinds;
}

StateDict FusedOptimizer::state_dict(const std::vector<std::string>& names) {
  StateDict result;
  // Kept to the end: stored states exist as tensors only while it lives.
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

std::vector<std::string> FusedOptimizer::state_kinds() const {
  std::vector<std::string> kinds;
  const auto add = [&](const char* kind) {
    if (std::ranges::find(kinds, kind) == kinds.end()) {
      kinds.emplace_back(kind);
    }
  };
  for (const auto& group : param_groups_) {
    const auto state = new_state();
    const StateTensors of = tensors_of(*state, group.options());
    for (std::size_t k = 0; k < of.tensors.size() && of.tensors[k]; ++k) {
      add(of.names[k]);
    }
  }
  add("master");
  return kinds;
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
                "[optim.load_state_dict] {}.{} has shape {}, expected {}",
                name,
                kind,
                from->sizes(),
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
        // A parameter without entries has had no step yet, and gets its state
        // then.
        if (num_used > used_before) {
          loaded[key] = std::move(state);
        }
      });
  ARGOSY_CHECK(
      num_used == states.size(),
      "[optim.load_state_dict] {} of {} names do not belong to a parameter of "
      "this optimizer",
      states.size() - num_used,
      states.size());
  // Only after all checks: an error above leaves the old states.
  state_.clear();
  for (auto& [key, state] : loaded) {
    state_[key] = std::move(state);
  }
  adopt_states();
}

} // namespace argosy::optim
