#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "argosy/pipeline/layer_desc.h"
#include "argosy/pipeline/stage_model.h"
#include "argosy/recomputation/options.h"

namespace argosy::pipeline {

// How to split a list of layers into parts.
struct Segmentation {
  // "uniform": equal numbers of layers; the last parts get the remainder.
  // "layer:Block": equal numbers of the layers whose class name matches the
  // regular expression after the colon. "parameters": balances the number of
  // parameters. "measured": balances times measured with `examples`. "cost":
  // balances `costs`. "starts": splits at `starts`.
  std::string method = "uniform";
  // Inputs of one microbatch. All ranks build and time the layers, one at a
  // time, forward and backward; the first rank's times decide, so that all
  // ranks split alike.
  Tensors examples;
  // Cost of each layer; the split minimizes the cost of the largest part.
  std::vector<double> costs;
  std::vector<int> starts; // index of the first layer of each part

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
  // The ranks that are the stages. Null: the pipe axis of the current
  // HybridMesh, or all ranks if there is none.
  GroupPtr group;
  // Parts per stage, and which stage holds which part (kV is for "zbv").
  int chunks = 1;
  PartOrder order = PartOrder::kRound;
  Segmentation segmentation;
  // train_batch() selects one by index.
  std::vector<LossFn> loss_fns;
  // Recompute groups of this many layers in backward, keeping only the group's
  // input; 0: no recomputation.
  int recompute_interval = 0;
  RecomputeOptions recompute;
  // Layer i is initialized from the random seed seed + i, on whichever stage.
  std::uint64_t seed = 1234;
};

// A model given as a list of layers, of which each stage builds only its own.
// Parameters have the names that they would have in a Sequential of all layers.
class PipelineLayerImpl final : public torch::nn::Module, public StageModel {
 public:
  // All ranks of the group call it alike; it communicates. Throws
  // InvalidArgument when the list cannot be split as requested.
  PipelineLayerImpl(
      std::vector<LayerDesc> layers, PipelineLayerOptions options);

  Tensors forward(int chunk, const Tensors& inputs) override;
  torch::nn::Module& module() override { return *this; }

  // Runs all chunks in order; for a single stage.
  Tensors forward(const Tensors& inputs);

  const PipelineLayerOptions& options() const { return options_; }

  // Index of the first layer of each part, then the number of layers.
  const std::vector<int>& borders() const { return borders_; }
  int part_from_index(int layer) const;
  int get_stage_from_index(int layer) const;
  bool is_local(int layer) const {
    return get_stage_from_index(layer) == stage();
  }

 protected:
  bool recomputes_all() const override {
    return options_.recompute_interval > 0;
  }

 private:
  struct Local {
    int index = 0;
    std::shared_ptr<torch::nn::Module> module; // null for a function
    Forward forward;
  };

  std::vector<int> cut(const std::vector<LayerDesc>& layers) const;
  void build(const std::vector<LayerDesc>& layers);
  void add(const LayerDesc& desc, int index, int chunk);
  std::vector<SharedWeight> find_shared(
      const std::vector<LayerDesc>& layers) const;
  Tensors run(const Local* begin, const Local* end, Tensors values) const;

  const PipelineLayerOptions options_;
  std::vector<int> borders_;
  std::vector<std::vector<Local>> chunks_;
  std::map<std::string, std::shared_ptr<torch::nn::Module>> by_key_;
};
TORCH_MODULE(PipelineLayer);

} // namespace argosy::pipeline
