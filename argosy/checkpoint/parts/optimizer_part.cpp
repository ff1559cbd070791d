// The state of an optimizer: of torch's, or of ours.

#include <ATen/ops/empty_strided.h>
#include <ATen/ops/scalar_tensor.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/optimizer.h>
#include <torch/serialize.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <utility>

#include "argosy/checkpoint/parts/parts.h"
#include "argosy/checkpoint/parts/torch_states.h"
#include "argosy/common/error.h"
#include "argosy/common/text.h"
#include "argosy/dtensor/dtensor.h"
#include "argosy/optim/fused.h"
#include "argosy/optim/local.h"
#include "argosy/optim/parameter_groups.h"

namespace argosy::checkpoint {

namespace {

using training::HeldPart;

// What is known of one parameter of the optimizer.
struct Held {
  at::Tensor parameter;   // as the optimizer has it
  std::string model_name; // "model/fc.weight"
  std::string name;       // "optimizer/fc.weight"
};

// The part that a state of the parameter is: the same elements, other values.
HeldPart part_with(const at::Tensor& parameter, const at::Tensor& values) {
  if (is_dtensor(values)) {
    return training::held_part(values);
  }
  HeldPart part = training::held_part(parameter);
  part.values = values;
  return part;
}

HeldPart number_part(const at::Tensor& number) {
  return {.whole = {}, .box = {}, .values = number};
}

// The options of all groups, as torch serializes them.
std::string options_text(torch::optim::Optimizer& optimizer) {
  torch::serialize::OutputArchive archive;
  std::size_t number = 0;
  for (auto& group : optimizer.param_groups()) {
    torch::serialize::OutputArchive each(archive.compilation_unit());
    group.options().serialize(each);
    archive.write(std::to_string(number++), each);
  }
  std::ostringstream out;
  archive.save_to(out);
  return argosy::to_hex(out.str());
}

void set_options(torch::optim::Optimizer& optimizer, const std::string& text) {
  std::istringstream in(text);
  torch::serialize::InputArchive archive;
  archive.load_from(in);
  std::size_t number = 0;
  for (auto& group : optimizer.param_groups()) {
    torch::serialize::InputArchive each;
    archive.read(std::to_string(number++), each);
    group.options().serialize(each);
  }
}

class OptimizerPart final : public StatePart {
 public:
  OptimizerPart(
      std::string name,
      torch::optim::Optimizer& optimizer,
      NamesOf names,
      std::shared_ptr<const bool> is_local)
      : name_(std::move(name)),
        optimizer_(optimizer),
        fused_(dynamic_cast<optim::FusedOptimizer*>(&optimizer)),
        kind_(fused_ == nullptr ? kind_of(optimizer) : nullptr),
        names_(std::move(names)),
        is_local_(std::move(is_local)) {}

  void save(Contents& contents) override {
    check_known("save");
    const std::vector<Held> all = held_parameters("save");
    const optim::StateDict states = fused_ != nullptr
        ? fused_->state_dict(names_of(all))
        : optim::StateDict();
    for (const Held& held : all) {
      save_state(contents, held, state_of(held, states));
    }
    contents.value(name_ + "/groups", optimizer_.param_groups().size());
    contents.value(name_ + "/lr", learning_rates());
    contents.value(name_ + "/options", options_text(optimizer_));
  }

  void load(Request& request) override {
    check_known("load");
    auto states = std::make_shared<States>();
    const auto all = held_parameters("load");
    const optim::StateDict now = fused_ != nullptr
        ? fused_->state_dict(names_of(all))
        : optim::StateDict();
    for (const Held& held : all) {
      ask_for_copy(request, held);
      ask_for_state(request, held, state_of(held, now), *states);
    }
    load_options(request);
    request.after([this, states] { give(*states); });
  }

 private:
  struct Loaded {
    at::Tensor parameter;
    std::string name;
    std::vector<std::pair<std::string, at::Tensor>> tensors;
    at::Tensor step; // undefined: none
  };
  using States = std::vector<Loaded>;

  void check_known(const char* op) const {
    ARGOSY_CHECK(
        fused_ != nullptr || kind_ != nullptr,
        "[checkpoint.{}] {} is an optimizer whose state is not known, expected "
        "one of argosy::optim or torch::optim; others can be added by a "
        "StatePart (State::add)",
        op,
        name_);
  }

  // "optimizer/fc.weight" for "model/fc.weight"; a model of another name keeps
  // it, so that two models do not mix.
  std::string own_name(const std::string& model_name) const {
    const std::string prefix = "model/";
    return name_ + '/' +
        (model_name.starts_with(prefix) ? model_name.substr(prefix.size())
                                        : model_name);
  }

  std::vector<Held> held_parameters(const char* op) const {
    std::vector<Held> all;
    for (const at::Tensor& parameter : optim::params_of(optimizer_)) {
      const std::string model_name = name_of(parameter, names_(), op);
      all.push_back({parameter, model_name, own_name(model_name)});
    }
    return all;
  }

  std::vector<std::string> tensor_kinds() const {
    return fused_ != nullptr ? fused_->state_kinds() : kind_->tensors;
  }

  std::vector<double> learning_rates() const {
    std::vector<double> rates;
    for (auto& group : optimizer_.param_groups()) {
      rates.push_back(group.options().get_lr());
    }
    return rates;
  }

  static std::vector<std::string> names_of(const std::vector<Held>& all) {
    std::vector<std::string> names;
    for (const Held& held : all) {
      names.push_back(held.name);
    }
    return names;
  }

  // `states` are those of a FusedOptimizer by name.
  ParameterState state_of(const Held& held, const optim::StateDict& states) {
    if (fused_ == nullptr) {
      auto& all = optimizer_.state();
      const auto found =
          all.find(c10::guts::to_string(held.parameter.unsafeGetTensorImpl()));
      return found == all.end() ? ParameterState()
                                : kind_->read(*found->second);
    }
    ParameterState state;
    for (const std::string& kind : tensor_kinds()) {
      const auto found = states.find(held.name + '.' + kind);
      if (found != states.end()) {
        state.tensors.emplace_back(kind, found->second);
      }
    }
    const auto step = states.find(held.name + ".step");
    if (step != states.end()) {
      state.step = step->second.item<std::int64_t>();
    }
    return state;
  }

  void save_state(
      Contents& contents, const Held& held, const ParameterState& state) {
    for (const auto& [kind, tensor] : state.tensors) {
      contents.tensor(
          held.name + '.' + kind,
          part_with(held.parameter, tensor),
          *is_local_);
    }
    if (state.step) {
      contents.tensor(
          held.name + ".step",
          number_part(at::scalar_tensor(*state.step, at::kLong)),
          true);
    }
  }

  // The state of a weight that shared memory with another when it was saved is
  // under the other's name.
  void note_aliases(
      Request& request,
      const Held& held,
      const std::vector<std::string>& kinds) const {
    const std::string other = request.other_name(held.model_name);
    if (other.empty()) {
      return;
    }
    for (const std::string& kind : kinds) {
      request.alias(held.name + '.' + kind, own_name(other) + '.' + kind);
    }
    request.alias(held.name + ".step", own_name(other) + ".step");
  }

  // An optimizer of DTensors may step copies of shards, which must get the
  // values of the parameters too.
  static void ask_for_copy(Request& request, const Held& held) {
    const at::Tensor known = training::parameter_of(held.parameter);
    if (known.is_same(held.parameter) || !is_dtensor(known)) {
      return;
    }
    const TensorRecord* found = request.find(held.model_name);
    if (found != nullptr) {
      request.tensor(held.model_name, training::held_part(held.parameter));
    }
  }

  // What the load leaves out stays as it is `now`.
  void ask_for_state(
      Request& request,
      const Held& held,
      const ParameterState& now,
      States& states) {
    Loaded loaded{.parameter = held.parameter, .name = held.name};
    std::vector<std::string> kinds = tensor_kinds();
    note_aliases(request, held, kinds);
    for (const auto& [kind, tensor] : now.tensors) {
      if (!request.is_wanted(held.name + '.' + kind)) {
        loaded.tensors.emplace_back(kind, tensor);
      }
    }
    for (const std::string& kind : kinds) {
      const std::string name = held.name + '.' + kind;
      if (const TensorRecord* found = request.find(name)) {
        const at::Tensor local = optim::local_of(held.parameter);
        const at::Tensor values = at::empty_strided(
            local.sizes(),
            local.strides(),
            local.options().dtype(scalar_type_of(found->info.dtype, name)));
        request.tensor(name, part_with(held.parameter, values), false);
        loaded.tensors.emplace_back(kind, values);
      }
    }
    const std::string step = held.name + ".step";
    if (request.find(step) != nullptr) {
      loaded.step = at::scalar_tensor(0, at::kLong);
      request.tensor(step, number_part(loaded.step), false);
    } else if (now.step && !request.is_wanted(step)) {
      loaded.step = at::scalar_tensor(*now.step, at::kLong);
    }
    if (!loaded.tensors.empty() || loaded.step.defined()) {
      states.push_back(std::move(loaded));
    }
  }

  // The learning rate may have been scheduled, so options are a part of the
  // state; a change of hyperparameters comes after load().
  void load_options(Request& request) {
    const nlohmann::json* groups = request.value(name_ + "/groups");
    const nlohmann::json* options = request.value(name_ + "/options");
    if (groups == nullptr || options == nullptr || !options->is_string()) {
      return;
    }
    if (*groups != optimizer_.param_groups().size()) {
      throw CheckpointError(str_format(
          "[checkpoint.load] {} had {} groups of parameters, expected {} as "
          "this optimizer has",
          name_,
          groups->dump(),
          optimizer_.param_groups().size()));
    }
    const auto text = of_hex(options->get<std::string>());
    if (!text) {
      throw CheckpointError(str_format(
          "[checkpoint.load] {}/options is not a text of hex digits", name_));
    }
    request.after([this, text = *text] { set_options(optimizer_, text); });
  }

  void give(const States& states) {
    if (fused_ != nullptr) {
      give_fused(states);
      return;
    }
    auto& all = optimizer_.state();
    all.clear();
    for (const Loaded& loaded : states) {
      ParameterState state{.tensors = loaded.tensors, .step = {}};
      if (loaded.step.defined()) {
        state.step = loaded.step.item<std::int64_t>();
      }
      all[c10::guts::to_string(loaded.parameter.unsafeGetTensorImpl())] =
          kind_->make(state);
    }
  }

  void give_fused(const States& states) {
    optim::StateDict dict;
    for (const Loaded& loaded : states) {
      for (const auto& [kind, tensor] : loaded.tensors) {
        dict[loaded.name + '.' + kind] =
            optim::global_like(tensor, loaded.parameter);
      }
      if (loaded.step.defined()) {
        dict[loaded.name + ".step"] = loaded.step;
      }
    }
    fused_->load_state_dict(dict, names_of(held_parameters("load")));
  }

  const std::string name_;
  torch::optim::Optimizer& optimizer_;
  optim::FusedOptimizer* const fused_; // null: one of torch's
  const StateKind* const kind_;
  const NamesOf names_;
  const std::shared_ptr<const bool> is_local_;
};

} // namespace

std::unique_ptr<StatePart> optimizer_part(
    std::string name,
    torch::optim::Optimizer& optimizer,
    NamesOf names,
    std::shared_ptr<const bool> is_local) {
  if (auto* lbfgs = dynamic_cast<torch::optim::LBFGS*>(&optimizer)) {
    return lbfgs_part(std::move(name), *lbfgs, std::move(names));
  }
  return std::make_unique<OptimizerPart>(
      std::move(name), optimizer, std::move(names), std::move(is_local));
}

} // namespace argosy::checkpoint
