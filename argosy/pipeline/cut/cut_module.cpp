#include "argosy/pipeline/cut/cut_module.h"

#include <ATen/ops/zeros.h>
#include <torch/nn/module.h>

#include <algorithm>

#include "argosy/common/error.h"
#include "argosy/dtensor/dtensor.h"
#include "argosy/pipeline/cut/released_states.h"
#include "argosy/pipeline/cut/state_subset.h"
#include "argosy/torch_hooks/autocast.h"

namespace argosy::pipeline {

namespace {

std::vector<double> weights_of(const Program& program, const CutRule& rule) {
  if (rule.weight == CutRule::Weight::kWork) {
    return work_weights(program.graph);
  }
  if (rule.weight == CutRule::Weight::kStates) {
    return state_weights(program.graph);
  }
  return program.seconds;
}

Cuts cut_by(const Program& program, const CutRule& rule) {
  const Cuts own = rule.points.empty()
      ? cut_evenly(program.graph, rule.parts, weights_of(program, rule))
      : cut(program.graph, rule.points);
  if (!rule.make_equal || own.parts.size() == 1) {
    return own;
  }
  std::vector<double> places;
  for (std::size_t i = 1; i < own.parts.size(); ++i) {
    places.push_back(own.parts[i].begin);
  }
  rule.make_equal(places);
  return cut_at(program.graph, {places.begin(), places.end()});
}

// Records twice if times matter: the first run also allocates memory.
Program record_for(
    const CutRule& rule,
    torch::nn::Module& module,
    const Forward& forward,
    const Tensors& examples) {
  if (rule.points.empty() && rule.weight == CutRule::Weight::kTime) {
    record(module, forward, examples);
  }
  return record(module, forward, examples);
}

// The inputs of the first recording. It runs on plain tensors if the module's
// states become DTensors only after it has told which of them a stage keeps.
Tensors first_examples(
    const Tensors& examples, const std::optional<Spread>& spread) {
  return spread && !spread->place_states ? spread->wrap(examples) : examples;
}

Tensors checked_examples(Tensors examples) {
  for (const at::Tensor& each : examples) {
    ARGOSY_CHECK(
        !is_dtensor(each),
        "[pipeline.cut] an example is a DTensor, expected this rank's part of "
        "it, and CutOptions::spread, which says where the part lies");
  }
  return examples;
}

std::vector<std::string> names_of(const Graph& graph, const Part& part) {
  std::vector<std::string> names;
  for (const int state : part.states) {
    names.push_back(graph.value(state).names[0]);
  }
  return names;
}

} // namespace

CutModule::CutModule(
    std::shared_ptr<torch::nn::Module> module,
    Forward forward,
    Tensors examples,
    const CutRule& rule,
    std::optional<Spread> spread)
    : module_(std::move(module)),
      forward_(std::move(forward)),
      examples_(checked_examples(std::move(examples))),
      spread_(std::move(spread)),
      program_(std::make_shared<const Program>(record_for(
          rule, *module_, forward_, first_examples(examples_, spread_)))),
      cuts_(cut_by(*program_, rule)) {
  Runners& runners = runners_[key_of(inputs())];
  for (const Part& part : cuts_.parts) {
    runners.emplace_back(program_, part);
  }
}

// The key has all that can make forward issue other ops: the shapes and dtypes
// of the inputs, autocast, and the training mode of each submodule.
std::vector<std::int64_t> CutModule::key_of(const Metas& inputs) const {
  Metas shapes = inputs;
  for (TensorMeta& each : shapes) {
    each.requires_grad = false;
  }
  std::vector<std::int64_t> key = pack(shapes);
  const torch_hooks::Autocast autocast;
  key.push_back(autocast.cpu ? static_cast<int>(autocast.cpu_dtype) : -1);
  key.push_back(autocast.device ? static_cast<int>(autocast.device_dtype) : -1);
  key.push_back(autocast.ops ? autocast.ops->fingerprint() : -1);
  for (const auto& each : module_->modules()) {
    key.push_back(each->is_training() ? 1 : 0);
  }
  return key;
}

Tensors CutModule::examples_of(const Metas& inputs) const {
  Tensors zeros;
  bool is_same = inputs.size() == examples_.size();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    zeros.push_back(at::zeros(inputs[i].sizes, inputs[i].type));
    is_same = is_same && zeros[i].sizes() == examples_[i].sizes() &&
        zeros[i].scalar_type() == examples_[i].scalar_type();
  }
  return is_same ? examples_ : zeros;
}

// Throws if a part uses states that it did not use at first: it has no values
// of them.
void CutModule::check_states(const Graph& graph, const Cuts& cuts) const {
  for (std::size_t i = 0; i < cuts.parts.size(); ++i) {
    const auto known = names_of(program_->graph, cuts_.parts[i]);
    for (const std::string& name : names_of(graph, cuts.parts[i])) {
      ARGOSY_CHECK(
          std::ranges::find(known, name) != known.end(),
          "[pipeline.cut] part {} uses {} for these inputs, which it did not "
          "for the examples",
          i,
          name);
    }
  }
}

CutModule::Runners CutModule::make_runners(const Metas& inputs) const {
  const Tensors examples = examples_of(inputs);
  const auto program = std::make_shared<const Program>(
      record(*module_, forward_, spread_ ? spread_->wrap(examples) : examples));
  // Each stage has values only of the states of its parts in cuts_.
  const Cuts cuts = cut_alike(program->graph, program_->graph, cuts_);
  check_states(program->graph, cuts);
  Runners runners;
  for (const Part& part : cuts.parts) {
    runners.emplace_back(program, part);
  }
  return runners;
}

const CutModule::Runners& CutModule::runners_for(const Metas& inputs) {
  std::vector<std::int64_t> key = key_of(inputs);
  auto found = runners_.find(key);
  if (found == runners_.end()) {
    found = runners_.emplace(std::move(key), make_runners(inputs)).first;
  }
  return found->second;
}

Tensors CutModule::forward(int part, Tensors given, const Metas& inputs) {
  return runners_for(inputs)
      .at(static_cast<std::size_t>(part))
      .run(std::move(given));
}

Tensors CutModule::forward(int part, Tensors given) {
  return forward(part, std::move(given), inputs());
}

Metas CutModule::received(int part) const {
  return program_->metas_of(
      cuts_.parts.at(static_cast<std::size_t>(part)).receives);
}

Metas CutModule::sent(int part) const {
  return program_->metas_of(
      cuts_.parts.at(static_cast<std::size_t>(part)).sends);
}

std::vector<std::string> CutModule::state_names(int part) const {
  return names_of(
      program_->graph, cuts_.parts.at(static_cast<std::size_t>(part)));
}

bool CutModule::uses(
    const std::vector<int>& parts, const std::string& state) const {
  return std::ranges::any_of(parts, [&](int part) {
    const auto names = state_names(part);
    return std::ranges::find(names, state) != names.end();
  });
}

void CutModule::keep_only(const std::vector<int>& parts) {
  Tensors released;
  for (const auto& [value, tensor] : program_->held) {
    const auto& names = program_->graph.value(value).names;
    // A constant of forward, not a state of the module: all parts keep it.
    if (names.empty()) {
      continue;
    }
    if (!uses(parts, names[0])) {
      release_values(tensor);
      released.push_back(tensor);
    }
  }
  if (spread_ && spread_->place_states) {
    spread_->place_states(*module_);
    runners_.clear(); // of plain tensors
  }
  // After the states are placed, which makes views of them.
  std::ranges::for_each(released, refuse_memory);
  for (const auto& [value, tensor] : program_->held) {
    materialize_values(tensor);
  }
}

std::shared_ptr<torch::nn::Module> CutModule::states_of(
    const std::vector<int>& parts) {
  const auto kept = std::make_shared<StateSubset>(module_);
  for (const auto& item : module_->named_parameters()) {
    if (uses(parts, item.key())) {
      kept->add_parameter(item.key(), item.value());
    }
  }
  for (const auto& item : module_->named_buffers()) {
    if (uses(parts, item.key())) {
      kept->add_buffer(item.key(), item.value());
    }
  }
  return kept;
}

} // namespace argosy::pipeline
