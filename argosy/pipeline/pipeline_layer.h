#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "argosy/pipeline/layer_desc.h"
#include "argosy/pipeline/stage_model.h"
#include "argosy/recomputation/options.h"

namespace argosy::pipeline {

// Where a list of layers is cut.
struct Segmentation {
  // "uniform": as many layers each, the last ones one more. "layer:Block":
  // after equal numbers of layers whose class matches the regular expression.
  // "parameters": by their number. "measured": see `examples`. "cost": see
  // `costs`. "starts": see `starts`.
  std::string method = "uniform";
  // Inputs of one microbatch. Layers are built and timed with them, one at a
  // time, forward and backward, by all ranks; the first one's times count (all
  // take the same cut).
  Tensors examples;
  // Of each layer; the largest part is the smallest that can be.
  std::vector<double> costs;
  std::vector<int> starts; // the first layer of each part

  static Segmentation measured(Tensors examples) {
    return {.method = "measured", .examples = std::move(examples)};
  }
  static Segmentation by_cost(std::vector<double> costs) {
    return {.method = "cost", .costs = std::move(costs)};
  }
  static Segmentation at(std::vector<int> starts) {
    return {.method = "starts", .starts = std::move(starts)};
  }
};

struct PipelineLayerOptions {
  // The stages; null: the pipe axis of the current HybridCommunicateGroup, or
  // all ranks when there is none.
  GroupPtr group;
  // A chunk each in turn, or down the stages and up again (for "zbv").
  int chunks = 1;
  PartOrder order = PartOrder::kRound;
  Segmentation segmentation;
  // One for each kind of batch; train_batch() chooses.
  std::vector<LossFn> loss_fns;
  // So many layers at a time keep nothing but their input for backward; 0: all
  // keep what they save.
  int recompute_interval = 0;
  RecomputeOptions recompute;
  // Layer i is built with the random numbers of seed + i, wherever it is.
  std::uint64_t seed = 1234;
};

// A model as a list of layers, of which each rank of a pipeline builds its own.
// Parameters have the names that they would have in a Sequential of all.
class PipelineLayerImpl final : public torch::nn::Module, public StageModel {
 public:
  // All ranks call it alike. Throws InvalidArgument when the list cannot be cut
  // as told.
  PipelineLayerImpl(
      std::vector<LayerDesc> layers, PipelineLayerOptions options);

  Tensors forward(int chunk, const Tensors& inputs) override;
  torch::nn::Module& module() override { return *this; }

  // Of all chunks at once, where there is one stage.
  Tensors forward(const Tensors& inputs);

  const PipelineLayerOptions& options() const { return options_; }

  // The first layer of each part, and the number of layers.
  const std::vector<int>& borders() const { return borders_; }
  int part_from_index(int layer) const;
  int get_stage_from_index(int layer) const;
  bool is_local(int layer) const {
    return get_stage_from_index(layer) == stage();
  }

  // One file a layer, so that a pipeline cut in another way can take them:
  // DIR/layer_03-tensor_00-model_states.pt. Each stage writes and reads its
  // own; `tensor_rank` is that of the model axis. Files appear whole or not at
  // all.
  void save_layers(const std::string& directory, int tensor_rank = 0) const;
  void load_layers(const std::string& directory, int tensor_rank = 0);

 private:
  struct Local {
    int index = 0;
    std::shared_ptr<torch::nn::Module> module; // null: a function
    Forward forward;
  };

  std::vector<int> cut(const std::vector<LayerDesc>& layers) const;
  void build(const std::vector<LayerDesc>& layers);
  void add(const LayerDesc& desc, int index, int chunk);
  std::vector<SharedWeight> find_shared(
      const std::vector<LayerDesc>& layers) const;
  Tensors run(const Local* begin, const Local* end, Tensors values) const;
  std::string path_of(
      const std::string& directory, int layer, int tensor_rank) const;

  const PipelineLayerOptions options_;
  std::vector<int> borders_;
  std::vector<std::vector<Local>> chunks_;
  std::map<std::string, std::shared_ptr<torch::nn::Module>> by_key_;
};
TORCH_MODULE(PipelineLayer);

} // namespace argosy::pipeline
