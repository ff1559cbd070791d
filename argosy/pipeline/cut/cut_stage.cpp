#include "argosy/pipeline/cut/cut_stage.h"

#include <ATen/ops/tensor.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <set>

#include "argosy/common/error.h"
#include "argosy/dtensor/dtensor.h"
#include "argosy/recomputation/recompute.h"

namespace argosy::pipeline {

namespace {

CutRule rule_of(const CutOptions& options, int stages) {
  const int parts = stages * options.chunks;
  ARGOSY_CHECK(
      options.split_spec.empty() ||
          static_cast<int>(options.split_spec.size()) == parts - 1,
      "[pipeline.cut] {} points for {} parts, expected one fewer",
      options.split_spec.size(),
      parts);
  return {
      .points = options.split_spec,
      .parts = parts,
      .weight = options.weight,
      .make_equal = [group = options.group](auto& places) {
        broadcast_from_first(places, group);
      }};
}

Metas unpack_tensor(const at::Tensor& numbers) {
  const auto* begin = numbers.data_ptr<std::int64_t>();
  return trace::unpack({begin, begin + numbers.numel()});
}

} // namespace

CutStage::CutStage(
    const LayerDesc& module, Tensors examples, CutOptions options)
    : CutStage(module.build(nullptr), std::move(examples), std::move(options)) {
}

CutStage::CutStage(
    const LayerDesc::Built& built, Tensors examples, CutOptions options)
    : StageModel(options.group, options.chunks, options.order),
      options_(std::move(options)),
      cut_(
          built.module,
          built.forward,
          std::move(examples),
          rule_of(options_, stages()),
          options_.spread),
      states_(cut_.states_of(parts())) {
  cut_.keep_only(parts());
  set_shared_weights(find_shared());
}

std::vector<int> CutStage::parts() const {
  std::vector<int> own;
  for (int chunk = 0; chunk < chunks(); ++chunk) {
    own.push_back(layout().part_of(stage(), chunk));
  }
  return own;
}

std::vector<SharedWeight> CutStage::find_shared() const {
  std::vector<SharedWeight> shared;
  const auto parameters = states_->named_parameters();
  for (const auto& [name, parts] : cut_.shared()) {
    std::set<int> holders;
    for (const int part : parts) {
      holders.insert(layout().stage_of(part));
    }
    const at::Tensor* parameter = parameters.find(name);
    if (holders.size() > 1 && parameter != nullptr) {
      shared.push_back({name, *parameter, {holders.begin(), holders.end()}});
    }
  }
  return shared;
}

Tensors CutStage::run(int part, const Tensors& given, const Metas& inputs) {
  // Not inside: what a recording saves for backward is no part of the call.
  cut_.prepare(inputs);
  if (!options_.recompute) {
    std::optional<RecomputedModules::Scope> again;
    if (recomputed() != nullptr) {
      again.emplace(*recomputed());
    }
    return cut_.forward(part, given, inputs);
  }
  return argosy::recompute(
      *options_.recompute,
      [this, part, inputs](const Tensors& kept) {
        return cut_.forward(part, kept, inputs);
      },
      given);
}

at::Tensor CutStage::loss(
    const LossFn& fn, const Tensors& outputs, const Tensors& labels) const {
  const bool spreads = options_.spread.has_value();
  // Of the whole batch, and the same on all ranks of the stage.
  return full_tensor(
      fn(outputs, spreads ? options_.spread->wrap(labels) : labels));
}

Tensors CutStage::forward(int chunk, const Tensors& given_inputs) {
  const int part = layout().part_of(stage(), chunk);
  const Tensors inputs = part == 0 && options_.spread
      ? options_.spread->unwrap(given_inputs)
      : given_inputs;
  if (options_.fixed_shapes) {
    return run(part, inputs, cut_.inputs());
  }
  Tensors given = inputs;
  at::Tensor shapes; // of the module's inputs; sent along to the last part
  // Later parts see activations only, but choose their program by the shapes of
  // the module's inputs.
  if (part == 0) {
    shapes = at::tensor(pack(metas_of(inputs)), at::kLong);
  } else {
    shapes = given.back();
    given.pop_back();
  }
  Tensors sent = run(part, given, unpack_tensor(shapes));
  if (part + 1 < cut_.num_parts()) {
    sent.push_back(shapes);
  }
  return sent;
}

} // namespace argosy::pipeline
