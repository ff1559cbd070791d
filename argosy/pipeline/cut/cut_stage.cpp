#include "argosy/pipeline/cut/cut_stage.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <torch/nn/module.h>
#include <torch/serialize.h>

#include <algorithm>
#include <set>

#include "argosy/common/error.h"
#include "argosy/dtensor/dtensor.h"
#include "argosy/recomputation/recompute.h"
#include "argosy/training/model_file.h"
#include "argosy/training/module_archive.h"

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

// The whole value of a state on the first stage, from the stage that has it;
// undefined on the others.
at::Tensor bring_to_first(
    const at::Tensor& state, int holder, const GroupPtr& group) {
  const int first = group->ranks().front();
  if (holder == group->rank()) {
    const at::Tensor value = full_tensor(state.detach()).contiguous();
    if (holder == 0) {
      return value.clone();
    }
    send(value, first, group);
  } else if (group->rank() == 0) {
    const at::Tensor value =
        at::empty(state.sizes(), at::TensorOptions(state.scalar_type()));
    recv(value, group->ranks()[static_cast<std::size_t>(holder)], group);
    return value;
  }
  return {};
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

// States that no part uses are not released: the first stage has them, too.
std::map<std::string, int> CutStage::first_holders() const {
  std::map<std::string, int> holders;
  for (int part = 0; part < cut_.num_parts(); ++part) {
    const int stage = layout().stage_of(part);
    const Part& own = cut_.cuts().parts[static_cast<std::size_t>(part)];
    for (const int state : own.states) {
      for (const std::string& name : cut_.graph().value(state).names) {
        const auto [known, is_new] = holders.emplace(name, stage);
        known->second = std::min(known->second, stage);
      }
    }
  }
  return holders;
}

void CutStage::save(const std::filesystem::path& path) {
  const at::NoGradGuard no_grad;
  const auto holders = first_holders();
  torch::serialize::OutputArchive archive;
  training::fill_archive(
      archive,
      cut_.module(),
      [&](const std::string& name, const at::Tensor& state) {
        const auto holder = holders.find(name);
        return bring_to_first(
            state, holder == holders.end() ? 0 : holder->second, group());
      });
  training::run_on_first({group()}, "pipeline.save", [&] {
    training::write_archive(path, archive);
  });
}

void CutStage::load(const std::filesystem::path& path) {
  load_model(cut_.module(), path);
}

} // namespace argosy::pipeline
