#include "argosy/pipeline/pipeline_layer.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <optional>
#include <set>

#include "argosy/common/error.h"
#include "argosy/dtensor/deferred_init.h"
#include "argosy/pipeline/measure.h"
#include "argosy/pipeline/segment.h"
#include "argosy/recomputation/recompute.h"
#include "argosy/tensor_parallel/rng.h"
#include "argosy/training/held_part.h"

namespace argosy::pipeline {

namespace {

constexpr char kByClass[] = "layer:";

// Counts parameters on the meta device, without allocating memory.
std::vector<double> parameter_counts(const std::vector<LayerDesc>& layers) {
  std::vector<double> counts;
  std::set<std::string> keys;
  for (const LayerDesc& each : layers) {
    double count = 0;
    // Layers with the same key share their parameters: they count once.
    if (each.key.empty() || keys.insert(each.key).second) {
      const DeferredInit deferred;
      const auto module = each.build(nullptr).module;
      for (const at::Tensor& parameter :
           module ? module->parameters() : Tensors()) {
        count += static_cast<double>(parameter.numel());
      }
    }
    counts.push_back(count);
  }
  return counts;
}

std::vector<std::string> types_of(const std::vector<LayerDesc>& layers) {
  std::vector<std::string> types;
  for (const LayerDesc& each : layers) {
    types.push_back(each.type);
  }
  return types;
}

// Seeds by layer, so that a layer's values do not depend on the split.
LayerDesc::Built build_layer(
    const LayerDesc& desc,
    std::uint64_t seed,
    const std::shared_ptr<torch::nn::Module>& existing) {
  const RngStatesTracker::Scope scope(at::detail::createCPUGenerator(seed));
  return desc.build(existing);
}

// Seconds of forward and backward of each layer. Only one layer exists at a
// time, because the whole model may not fit.
std::vector<double> measured_seconds(
    const std::vector<LayerDesc>& layers, const PipelineLayerOptions& options) {
  const RngStatesTracker::Scope scope(
      at::detail::createCPUGenerator(options.seed));
  std::size_t which = layers.size();
  LayerDesc::Built built;
  std::vector<Forward> forwards;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    forwards.emplace_back([&, i](const Tensors& inputs) {
      if (which != i) {
        // Frees the previous layer before it builds the next.
        built = {};
        built = build_layer(layers[i], options.seed + i, nullptr);
        which = i;
      }
      return built.forward(inputs);
    });
  }
  std::vector<double> seconds;
  for (const LayerCost& each :
       measure_layers(forwards, options.segmentation.examples)) {
    seconds.push_back(each.seconds());
  }
  // Each rank measures other times, but all must split alike.
  broadcast_from_first(seconds, options.group);
  return seconds;
}

} // namespace

PipelineLayerImpl::PipelineLayerImpl(
    std::vector<LayerDesc> layers, PipelineLayerOptions options)
    : torch::nn::Module("PipelineLayer"),
      StageModel(options.group, options.chunks, options.order),
      options_(std::move(options)) {
  borders_ = cut(layers);
  build(layers);
  set_shared_weights(find_shared(layers));
}

std::vector<int> PipelineLayerImpl::cut(
    const std::vector<LayerDesc>& layers) const {
  const int parts = layout().parts();
  const auto count = static_cast<int>(layers.size());
  const Segmentation& how = options_.segmentation;
  if (how.method == "uniform") {
    return segment_uniform(count, parts);
  }
  if (how.method.rfind(kByClass, 0) == 0) {
    return segment_by_layer(
        types_of(layers), how.method.substr(sizeof(kByClass) - 1), parts);
  }
  if (how.method == "parameters") {
    return balance(parameter_counts(layers), parts);
  }
  if (how.method == "measured") {
    ARGOSY_CHECK(
        !how.examples.empty(),
        "[pipeline] the segmentation \"measured\" without examples, expected "
        "the inputs of a microbatch");
    return balance(measured_seconds(layers, options_), parts);
  }
  if (how.method == "cost") {
    ARGOSY_CHECK(
        how.costs.size() == layers.size(),
        "[pipeline] {} costs of {} layers, expected one of each",
        how.costs.size(),
        layers.size());
    return balance(how.costs, parts);
  }
  if (how.method == "starts") {
    return segment_explicit(how.starts, count, parts);
  }
  throw InvalidArgument(str_format(
      "[pipeline] there is no segmentation \"{}\", expected uniform, "
      "layer:REGEX, parameters, measured, cost or starts",
      how.method));
}

int PipelineLayerImpl::part_from_index(int layer) const {
  ARGOSY_CHECK(
      layer >= 0 && layer < borders_.back(),
      "[pipeline] there is no layer {} among {}",
      layer,
      borders_.back());
  const auto above = std::ranges::upper_bound(borders_, layer);
  return static_cast<int>(above - borders_.begin()) - 1;
}

int PipelineLayerImpl::get_stage_from_index(int layer) const {
  return layout().stage_of(part_from_index(layer));
}

void PipelineLayerImpl::build(const std::vector<LayerDesc>& layers) {
  for (int chunk = 0; chunk < chunks(); ++chunk) {
    const auto part =
        static_cast<std::size_t>(layout().part_of(stage(), chunk));
    chunks_.emplace_back();
    for (int i = borders_[part]; i < borders_[part + 1]; ++i) {
      add(layers[static_cast<std::size_t>(i)], i, chunk);
    }
  }
}

void PipelineLayerImpl::add(const LayerDesc& desc, int index, int chunk) {
  const auto known = by_key_.find(desc.key);
  const bool is_known = !desc.key.empty() && known != by_key_.end();
  LayerDesc::Built built = build_layer(
      desc,
      options_.seed + static_cast<std::uint64_t>(index),
      is_known ? known->second : nullptr);
  if (built.module && !is_known) {
    register_module(std::to_string(index), built.module);
  }
  if (!desc.key.empty() && !is_known) {
    // Later layers with this key on this stage reuse the module. Other stages
    // get a copy, which share_weights() and sum_gradients() keep equal.
    by_key_[desc.key] = built.module;
  }
  chunks_[static_cast<std::size_t>(chunk)].push_back(
      {index, std::move(built.module), std::move(built.forward)});
}

// The weights whose key is present on several stages.
std::vector<SharedWeight> PipelineLayerImpl::find_shared(
    const std::vector<LayerDesc>& layers) const {
  std::vector<SharedWeight> shared;
  std::map<std::string, std::set<int>> stages_of;
  std::map<std::string, std::size_t> first;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (!layers[i].key.empty()) {
      stages_of[layers[i].key].insert(
          get_stage_from_index(static_cast<int>(i)));
      first.emplace(layers[i].key, i);
    }
  }
  for (const auto& [key, stages] : stages_of) {
    const auto own = by_key_.find(key);
    if (stages.size() == 1 || own == by_key_.end()) {
      continue;
    }
    const auto parameters = own->second->named_parameters(true);
    for (const std::string& name : layers[first[key]].shared_weights) {
      const at::Tensor* parameter = parameters.find(name);
      ARGOSY_CHECK(
          parameter != nullptr,
          "[pipeline] the layers \"{}\" share the parameter {}, which a {} has "
          "not",
          key,
          name,
          layers[first[key]].type);
      shared.push_back(
          {key + "." + name, *parameter, {stages.begin(), stages.end()}});
      training::set_first_name(*parameter, str(first[key], '.', name));
    }
  }
  return shared;
}

Tensors PipelineLayerImpl::run(
    const Local* begin, const Local* end, Tensors values) const {
  for (const Local* each = begin; each != end; ++each) {
    values = each->forward(values);
  }
  return values;
}

Tensors PipelineLayerImpl::forward(int chunk, const Tensors& inputs) {
  const std::vector<Local>& all = chunks_.at(static_cast<std::size_t>(chunk));
  const Local* next = all.data();
  const Local* const end = next + all.size();
  if (options_.recompute_interval <= 0) {
    std::optional<RecomputedModules::Scope> again;
    if (recomputed() != nullptr) {
      again.emplace(*recomputed());
    }
    return run(next, end, inputs);
  }
  Tensors values = inputs;
  while (next != end) {
    const Local* const stop = next +
        std::min<std::ptrdiff_t>(options_.recompute_interval, end - next);
    // The captured pointers stay valid until backward: chunks_ does not change
    // after construction.
    values = argosy::recompute(
        options_.recompute,
        [this, next, stop](const Tensors& kept) {
          return run(next, stop, kept);
        },
        values);
    next = stop;
  }
  return values;
}

Tensors PipelineLayerImpl::forward(const Tensors& inputs) {
  ARGOSY_CHECK(
      stages() == 1,
      "[pipeline] forward() of a pipeline of {} stages: take eval_batch() or "
      "train_batch(), which bring the stages together",
      stages());
  Tensors values = inputs;
  for (int chunk = 0; chunk < chunks(); ++chunk) {
    values = forward(chunk, values);
  }
  return values;
}

} // namespace argosy::pipeline
