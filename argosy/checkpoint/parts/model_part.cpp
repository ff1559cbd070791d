// The parameters and buffers of a module.

#include <torch/nn/module.h>

#include <utility>

#include "argosy/checkpoint/parts/parts.h"
#include "argosy/common/error.h"
#include "argosy/dtensor/deferred_init.h"

namespace argosy::checkpoint {

namespace {

struct NamedState {
  std::string name;
  at::Tensor tensor;
  bool is_buffer = false;
};

// Each tensor once, under its first name; and its further names.
struct ModuleStates {
  std::vector<NamedState> states;
  std::map<std::string, std::string> aliases; // further name -> first name
};

// "model/fc.weight" for fc.weight.
std::string name_in(
    const std::string& prefix,
    const std::string& key,
    const at::Tensor& state) {
  return prefix + '/' + training::first_name(state).value_or(key);
}

ModuleStates states_of(
    const std::string& prefix, const torch::nn::Module& module) {
  ModuleStates all;
  std::map<const void*, std::string> first;
  const auto add = [&](const auto& named, bool is_buffer) {
    for (const auto& item : named) {
      const at::Tensor& tensor = item.value();
      if (!tensor.defined()) {
        continue;
      }
      const std::string name = name_in(prefix, item.key(), tensor);
      const auto [known, is_new] =
          first.emplace(tensor.unsafeGetTensorImpl(), name);
      if (is_new) {
        all.states.push_back({name, tensor, is_buffer});
      } else {
        all.aliases[name] = known->second;
      }
    }
  };
  add(module.named_parameters(true), false);
  add(module.named_buffers(true), true);
  return all;
}

void check_real(const NamedState& state, const char* op) {
  ARGOSY_CHECK(
      !is_deferred(state.tensor),
      "[checkpoint.{}] {} has no values yet: it was made under DeferredInit; "
      "materialize or shard the model first",
      op,
      state.name);
  ARGOSY_CHECK(
      !state.tensor.is_meta(),
      "[checkpoint.{}] {} has no values on this rank: the module was cut into "
      "stages; give the stage (CutStage) instead of the module",
      op,
      state.name);
}

class ModelPart final : public StatePart {
 public:
  ModelPart(
      std::string name,
      torch::nn::Module& module,
      std::shared_ptr<training::ModelCore> core)
      : name_(std::move(name)), module_(module), core_(std::move(core)) {}

  void save(Contents& contents) override {
    if (core_ != nullptr) {
      core_->settle();
    }
    const ModuleStates all = states_of(name_, module_);
    for (const NamedState& state : all.states) {
      check_real(state, "save");
      // Buffers may differ by rank: running statistics of local batches.
      contents.tensor(
          state.name,
          training::held_part(state.tensor),
          state.is_buffer,
          !state.is_buffer && !state.tensor.requires_grad());
    }
    if (!all.aliases.empty()) {
      contents.value(name_ + "/aliases", all.aliases);
    }
    if (core_ != nullptr) {
      for (const auto& [name, tensor] : core_->memory()) {
        contents.tensor_of_rank(name_ + "/memory/" + name, tensor);
      }
    }
  }

  void load(Request& request) override {
    if (core_ != nullptr) {
      core_->settle();
    }
    const ModuleStates all = states_of(name_, module_);
    note_aliases(request, all);
    for (const NamedState& state : all.states) {
      check_real(state, "load");
      request.tensor(state.name, training::held_part(state.tensor));
    }
    if (core_ != nullptr) {
      request.tensors_of_rank(
          name_ + "/memory",
          [core = core_](const auto& memory) { core->set_memory(memory); });
    }
  }

 private:
  // A weight that was shared when it was saved may have several tensors here,
  // and the other way round.
  void note_aliases(Request& request, const ModuleStates& all) const {
    const auto& values = request.manifest().values;
    const auto saved = values.find(name_ + "/aliases");
    if (saved != values.end() && saved->is_object()) {
      for (const auto& [further, first] : saved->items()) {
        if (first.is_string()) {
          request.alias(further, first.get<std::string>());
          request.alias(first.get<std::string>(), further);
        }
      }
    }
    for (const auto& [further, first] : all.aliases) {
      request.known(further);
    }
  }

  const std::string name_;
  torch::nn::Module& module_;
  const std::shared_ptr<training::ModelCore> core_;
};

} // namespace

std::unique_ptr<StatePart> model_part(
    std::string name,
    torch::nn::Module& module,
    std::shared_ptr<training::ModelCore> core) {
  return std::make_unique<ModelPart>(std::move(name), module, std::move(core));
}

std::vector<std::pair<std::string, at::Tensor>> buffers_of(
    const std::string& name, const torch::nn::Module& module) {
  std::vector<std::pair<std::string, at::Tensor>> buffers;
  for (const NamedState& state : states_of(name, module).states) {
    if (state.is_buffer) {
      buffers.emplace_back(state.name, state.tensor);
    }
  }
  return buffers;
}

void add_names(
    const std::string& name,
    const torch::nn::Module& module,
    ParameterNames& names) {
  for (const auto& item : module.named_parameters(true)) {
    names.emplace(
        item.value().unsafeGetTensorImpl(),
        name_in(name, item.key(), item.value()));
  }
}

std::string name_of(
    const at::Tensor& parameter, const ParameterNames& names, const char* op) {
  const at::Tensor known = training::parameter_of(parameter);
  const auto found =
      known.defined() ? names.find(known.unsafeGetTensorImpl()) : names.end();
  ARGOSY_CHECK(
      found != names.end(),
      "[checkpoint.{}] a parameter of shape {} belongs to no model of the "
      "state: add the model to the State too, with the wrapper that trains it",
      op,
      parameter.sizes());
  return found->second;
}

} // namespace argosy::checkpoint
